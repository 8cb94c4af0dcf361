# SPDX-License-Identifier: MIT
"""Counts kilnd's instructions for a warm fetch.

valgrind's callgrind counts them, so the result does not depend on the machine's load. One fetch is
the difference between two runs, divided by the difference of their numbers of fetches.
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/attack"))
import material  # noqa: E402
import wire  # noqa: E402

START_MAX_S = 120
FEW = 1000
SIZES = (4096, 65536)  # inside the frame; as a descriptor


def start(build, directory):
    """Starts kilnd under callgrind. Returns the process and the path of the counts."""
    out = directory / "callgrind.out"
    kilnd = [build / "bin/kilnd", "--socket", directory / "s", "--cache-dir", directory / "cache",
             "--state-dir", directory / "state", "--workers", "0"]
    log = open(directory / "log", "w", encoding="utf-8")
    process = subprocess.Popen(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
                                *kilnd], stdout=log, stderr=subprocess.STDOUT)
    log.close()
    until = time.monotonic() + START_MAX_S
    while not (directory / "s").exists():
        if process.poll() is not None or time.monotonic() > until:
            sys.exit(f"kilnd did not start: {(directory / 'log').read_text(encoding='utf-8')}")
        time.sleep(0.1)
    return process, out


def import_kernel(connection, directory, size):
    rows = material.random_rows(1, size, f"bytes{size}")
    path = material.write_cache(directory / f"{size}.ukdb", rows)
    connection.ask("kernel_import", {"name": path.name, "database_id": material.DEVICE}, [path])
    return connection.fetch_name(material.DEVICE, f"bytes{size}0.o", "").key


def count(build, size, fetches):
    """Returns the instructions of a kilnd that answers so many fetches."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="kiln-count-"))
    try:
        process, out = start(build, directory)
        connection = wire.Connection(str(directory / "s"), START_MAX_S)
        key = import_kernel(connection, directory, size)
        for _ in range(fetches):
            assert connection.fetch(key).code == wire.OK
        connection.close()
        process.send_signal(signal.SIGTERM)
        process.wait(START_MAX_S)
        totals = re.search(r"^totals: (\d+)", out.read_text(encoding="utf-8"), re.M)
        return int(totals[1]) if totals else sys.exit("callgrind counted nothing")
    finally:
        shutil.rmtree(directory)


def main():
    p = argparse.ArgumentParser(description="counts kilnd's instructions for a warm fetch")
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    p.add_argument("--fetches", type=int, default=20000)
    given = p.parse_args()
    for size in SIZES:
        few, many = count(given.build, size, FEW), count(given.build, size, FEW + given.fetches)
        print(f"{size:6} bytes: {(many - few) / given.fetches:.0f} instructions a fetch")


if __name__ == "__main__":
    os.umask(0o077)
    main()
