# SPDX-License-Identifier: MIT
"""Lets MIOpen itself compile its kernels by kiln-cc, without a GPU. Must run in the copy of a
Debian system that scripts/test-rtc --root makes, because it replaces the system's compilers.

Debian's MIOpen starts clang for each kernel. The HIP runtime is tests/rtc/hip_stand_in.c, so the
kernels are compiled and loaded, but do nothing. Compares the kernels that MIOpen has stored after
three runs: without kiln, with it when kilnd has no results, and once more.
"""
import bz2
import collections
import json
import os
import pathlib
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import time

from conftest import BUILD, SOURCE, WAIT_MAX_S, Daemon

DRIVER = pathlib.Path("/usr/libexec/rocm/libmiopen1-tests/MIOpenDriver")
MIOPEN = pathlib.Path("/usr/lib/x86_64-linux-gnu/libMIOpen.so.1")
# Some kernels for matrix cores use intrinsics that LLVM 21 no longer has.
ENVIRONMENT = {"MIOPEN_FIND_MODE": "1", "MIOPEN_DEBUG_CONV_IMPLICIT_GEMM": "0",
               "MIOPEN_LOG_LEVEL": "2"}
CONVOLUTION = "-n 2 -c 16 -H 14 -W 14 -k 16 -y 3 -x 3 -p 1 -q 1 -F 0 -V 0 -i 1"
SHAPE = "-n 2 -c 16 -H 14 -W 14 -V 0 -i 1"
RUNS = [f"conv {CONVOLUTION}", f"convfp16 {CONVOLUTION}", f"bnorm {SHAPE} -F 1", f"softmax {SHAPE}",
        f"lrn {SHAPE}", f"activ {SHAPE}", "layernorm -V 0 -i 1", "reduce -V 0 -i 1",
        "groupnorm -V 0 -i 1"]
STORED, ANSWERED = "compiled here and stored", "answered by kilnd"
# A header that MIOpen wrote just before its compile may have changed meanwhile, for all that its
# time says. Such a compile is not stored.
ATTEMPTS = 5
RUN_MAX_S = 1200
COMPARED = (".text", ".rodata", ".note")


def prepare(directory):
    """Puts kiln-cc in the place of the compilers that MIOpen starts, and builds the stand-in."""
    paths = sorted(set(re.findall(rb"(?<=\0)/[ -~]*/clang(?:\+\+)?-[0-9]+(?=\0)",
                                  MIOPEN.read_bytes())))
    for path in map(pathlib.Path, map(os.fsdecode, paths)):
        found = pathlib.Path("/usr/bin") / path.name
        real = f"{found.resolve().parent}/{path.name.rpartition('-')[0]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(f'#!/bin/sh\nexec {BUILD}/bin/kiln-cc {real} "$@"\n')
        path.chmod(0o755)
        print(f"{path}: kiln-cc {real}")
    for header in "math.h", "stdlib.h":  # MIOpen's -isystem /usr/include hides them from C++
        link = pathlib.Path("/usr/local/include") / header
        link.unlink(missing_ok=True)
        link.symlink_to(f"/usr/include/{header}")
    library = directory / "hip_stand_in.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library,
                    SOURCE / "tests/rtc/hip_stand_in.c"], check=True, timeout=WAIT_MAX_S)
    return library


def sections(code):
    """Returns the contents of some sections of a code object, which may be in a bundle."""
    code = code[code.index(b"\x7fELF"):]
    at, = struct.unpack_from("<Q", code, 40)
    size, count, names = struct.unpack_from("<HHH", code, 58)
    rows = [struct.unpack_from("<IIQQQQ", code, at + i * size) for i in range(count)]
    text = code[rows[names][4]:]
    found = {text[row[0]:text.index(b"\0", row[0])].decode(): code[row[4]:row[4] + row[5]]
             for row in rows if row[1] != 8}
    return {name: found[name] for name in COMPARED if name in found}


def kernels(home):
    """Returns the kernels that MIOpen has stored in its cache."""
    stored = {}
    for path in home.glob(".cache/miopen/*/*.ukdb"):
        with sqlite3.connect(path) as database:
            for name, arguments, blob in database.execute(
                    "select kernel_name, kernel_args, kernel_blob from kern_db"):
                stored[name, arguments] = bz2.decompress(blob)
    return stored


def run(daemon, library, options, **more):
    """Runs MIOpenDriver in an empty home. Returns the seconds, how the compiles ended, and the
    kernels."""
    home = daemon.directory / "home"
    shutil.rmtree(home)
    home.mkdir()
    environment = dict(daemon.environment, LD_PRELOAD=str(library), KILN_RTC_DEBUG="1",
                       KILN_CC_ANY_DIRECTORY="1", KILN_RTC_PATIENCE="60000", **ENVIRONMENT, **more)
    began = time.monotonic()
    done = subprocess.run([DRIVER, *options.split()], env=environment, text=True, cwd="/tmp",
                          errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=RUN_MAX_S, check=False)
    seconds = time.monotonic() - began
    if done.returncode:
        raise RuntimeError(f"MIOpenDriver {options} ended with {done.returncode}: "
                           f"{done.stdout[-3000:]}")
    ends = collections.Counter(line.rpartition(": ")[2] for line in done.stdout.splitlines()
                               if line.startswith("libkiln-rtc: "))
    return seconds, ends, kernels(home)


def fill(daemon, library, options):
    """Runs MIOpenDriver until kilnd has stored all its compiles. Returns the seconds of the first
    run, and the kernels of the last."""
    first = last = run(daemon, library, options)
    for _ in range(ATTEMPTS):
        if not set(last[1]) - {STORED, ANSWERED}:
            break
        print(f"{options.split()[0]}: once more, because of {dict(last[1])}")
        last = run(daemon, library, options)
    return first[0], last[2]


def compare(daemon, library, options):
    """Returns the number of compiles, all of which kilnd must answer at last."""
    alone_s, ends, alone = run(daemon, library, options, KILN_RTC="off")
    stored_s, stored = fill(daemon, library, options)
    answered_s, answered_ends, answered = run(daemon, library, options)
    assert answered_ends == {ANSWERED: ends.total()}, (options, ends, answered_ends)
    assert alone and alone.keys() == stored.keys() and stored == answered, options
    for key, code in alone.items():
        assert sections(code) == sections(answered[key]), (options, key)
    print(f"{options.split()[0]:9} {ends.total():3} compiles {alone_s:7.2f} s without kiln, "
          f"{stored_s:7.2f} s stored, {answered_s:7.2f} s answered", flush=True)
    return ends.total()


def main():
    if not DRIVER.exists():
        print("skipped: Debian's package libmiopen1-tests is not installed", file=sys.stderr)
        return 77
    daemon = Daemon()
    try:
        library = prepare(daemon.directory)
        daemon.start()
        count = sum(compare(daemon, library, options) for options in RUNS)
        saved = json.loads(daemon.kilnctl("stats", "--json"))["client_saved_ms"] / 1000
        print(f"all {count} compiles were answered, which once took {saved:.1f} s")
        return 0
    finally:
        daemon.remove()


if __name__ == "__main__":
    sys.exit(main())
