# SPDX-License-Identifier: MIT
"""Tests kiln-cc and kiln-ptxas, which start a compiler or take its output from kilnd."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, WAIT_MAX_S, wait_until
from jobs import HERE, daemon  # noqa: F401  (a fixture)
from test_rtc import is_old

KILN_CC, KILN_PTXAS = BUILD / "bin/kiln-cc", BUILD / "bin/kiln-ptxas"
CLANG, PTXAS = HERE / "compilers/clang", HERE / "compilers/ptxas"
REAL_PTXAS = pathlib.Path("/usr/local/cuda/bin/ptxas")
REAL_CLANG = shutil.which("clang-19", path="/usr/bin:/usr/lib/llvm-19/bin")
HIP = ["-x", "hip", "--offload-arch=gfx942", "-c"]
STORED, ANSWERED = "compiled here and stored", "answered by kilnd"
UNCHANGED = "it is not a compile for a GPU with one output and known options"


class Launcher:
    """Runs compilers by kiln-cc."""

    def __init__(self, daemon, directory):
        self.directory = directory
        self.log = directory / "runs"
        self.environment = dict(daemon.environment, KILN_RTC_DEBUG="1", FAKE_CC_LOG=str(self.log),
                                KILN_RTC_PATIENCE=str(WAIT_MAX_S * 1000), KILN_PTXAS=str(PTXAS))

    def write(self, name, text):
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        wait_until("the clock to pass the file's time", lambda: is_old(path))

    def start(self, *command, status=0, **environment):
        done = subprocess.run([*map(str, command)], env=dict(self.environment, **environment),
                              text=True, capture_output=True, timeout=WAIT_MAX_S,
                              cwd=self.directory)
        assert done.returncode == status, done.stderr
        lines = done.stderr.splitlines(keepends=True)
        own = [line for line in lines if line.startswith("libkiln-rtc: ")]
        self.end = own[-1].rpartition(": ")[2].strip() if own else None
        said = "".join(line for line in lines if line not in own)
        return done.stdout, re.sub("Compile time = .*", "", said)

    def run(self, *arguments, output="k.o", **options):
        """Returns the output, its mode, and what the compiler printed."""
        path = self.directory / output
        path.unlink(missing_ok=True)
        printed = self.start(*arguments, "-o", output, **options)
        return (path.read_bytes(), os.stat(path).st_mode, printed) if path.exists() else printed

    def runs(self):
        """Returns how many times the compiler has run since the last call."""
        count = len(self.log.read_text().splitlines()) if self.log.exists() else 0
        self.log.unlink(missing_ok=True)
        return count

    def check(self, compiler, *arguments, **options):
        """Checks that a compile has the same results with and without kiln-cc, cold and warm.
        Returns how the compiles ended."""
        expected = self.run(compiler, *arguments, **options)
        ends = []
        for _ in range(2):
            assert self.run(KILN_CC, compiler, *arguments, **options) == expected
            ends.append(self.end)
        return ends


@pytest.fixture
def launcher(daemon, tmp_path):  # noqa: F811
    daemon.kilnctl("clear", "--own", "--yes")
    made = Launcher(daemon, tmp_path)
    made.write("k.hip", "int k;\n")
    return made


def test_a_second_compile_does_not_start_the_compiler(launcher):
    assert launcher.check(CLANG, *HIP, "k.hip") == [STORED, ANSWERED]
    assert launcher.runs() == 2  # one of them without kiln-cc


def test_the_compilers_messages_are_repeated(launcher):
    launcher.write("k.hip", "#warning w\nint k;\n")
    assert launcher.check(CLANG, *HIP, "k.hip") == [STORED, ANSWERED]


def test_an_error_is_not_stored(launcher):
    launcher.write("k.hip", "#error e\n")
    assert launcher.check(CLANG, *HIP, "k.hip", status=3) == ["the compile failed"] * 2


def test_each_input_counts(launcher):
    for option in [], ["-DN=1"], ["-mllvm", "-amdgpu-prelink"]:
        assert launcher.check(CLANG, *HIP, *option, "k.hip") == [STORED, ANSWERED]
    launcher.write("k.hip", "int other;\n")
    assert launcher.check(CLANG, *HIP, "k.hip") == [STORED, ANSWERED]
    assert launcher.check(CLANG, *HIP, "k.hip", HIP_PATH="/x") == [STORED, ANSWERED]


def test_a_header_that_changed_or_appeared_is_a_miss(launcher):
    launcher.write("k.hip", '#include "a.h"\n')
    launcher.write("second/a.h", "int a;\n")
    (launcher.directory / "first").mkdir()
    compile = [CLANG, *HIP, "-Ifirst", "-Isecond", "k.hip"]
    assert launcher.check(*compile) == [STORED, ANSWERED]
    launcher.write("second/a.h", "int b;\n")
    assert launcher.check(*compile) == [STORED, ANSWERED]
    launcher.write("first/a.h", "int c;\n")
    assert launcher.check(*compile) == [STORED, ANSWERED]


def test_a_compiler_that_was_replaced_compiles_again(launcher):
    copy = launcher.directory / "clang-copy"
    for _ in range(2):
        shutil.copy(CLANG, copy)
        wait_until("the clock to pass the file's time", lambda: is_old(copy))
        assert launcher.check(copy, *HIP, "k.hip") == [STORED, ANSWERED]


@pytest.mark.parametrize("given", [["-MD"], ["-mllvm", "-stats"], ["@file"], ["second.hip"]])
def test_a_compiler_with_other_options_is_started_unchanged(launcher, given):
    launcher.write("file", "-c\n")
    launcher.write("second.hip", "int s;\n")
    assert launcher.check(CLANG, *HIP, *given, "k.hip") == [UNCHANGED] * 2


def test_a_compile_for_the_host_is_not_stored(launcher):
    launcher.write("k.c", "int k;\n")
    assert launcher.check(CLANG, "-c", "k.c") == [UNCHANGED] * 2


@pytest.mark.parametrize("line, reason", [
    ("#write other", "it writes a file"), ("#start", "it starts a process"),
    ("char t[] = __TIME__;", "the source contains the time of its compile, or may contain it")])
def test_what_cannot_be_recorded_is_not_stored(launcher, line, reason):
    launcher.write("k.hip", line + "\n")
    ends = launcher.check(CLANG, *HIP, "k.hip")
    assert [end.startswith(reason) for end in ends] == [True, True], ends


def test_a_temporary_file_does_not_matter(launcher):
    launcher.write("k.hip", "#temporary scratch\nint k;\n")
    assert launcher.check(CLANG, *HIP, "k.hip") == [STORED, ANSWERED]


def test_kiln_rtc_off_starts_the_compiler_unchanged(launcher):
    assert launcher.check(CLANG, *HIP, "k.hip", KILN_RTC="off") == ["KILN_RTC=off"] * 2


def test_the_names_of_ptxas_files_do_not_matter(launcher):
    """Triton gives each file a random name."""
    for name, end in ("a1b2", STORED), ("c3d4", ANSWERED):
        launcher.write(f"{name}.ptx", "code\n")
        launcher.run(KILN_PTXAS, "-lineinfo", "-v", "--gpu-name=sm_90a", f"{name}.ptx",
                     output=f"{name}.ptx.o")
        assert launcher.end == end
        assert b"code" in (launcher.directory / f"{name}.ptx.o").read_bytes()
    assert launcher.runs() == 1


def test_kiln_ptxas_finds_ptxas_in_path(launcher):
    launcher.write("k.ptx", "code\n")
    path = f"{KILN_PTXAS.parent}:{PTXAS.parent}"
    launcher.run(KILN_PTXAS, "-arch=sm_90", "k.ptx", KILN_PTXAS="", PATH=path)
    assert launcher.runs() == 1


def test_help_and_a_missing_compiler(launcher):
    assert "Usage: kiln-cc COMPILER" in launcher.start(KILN_CC, "--help")[0]
    assert "there is no program 'none'" in launcher.start(KILN_CC, "none", status=127)[1]


PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b64 %r; ld.param.u64 %r, [p]; st.global.u32 [%r], 1; ret; }
"""


@pytest.mark.skipif(not REAL_PTXAS.exists(), reason=f"{REAL_PTXAS} is not here")
def test_ptxas(launcher):
    options = ["-v", "-lineinfo", "--gpu-name=sm_90"]
    for name in "a1b2.ptx", "c3d4.ptx":
        launcher.write(name, PTX)
        ends = launcher.check(REAL_PTXAS, *options, name)
        assert ends == [STORED if name == "a1b2.ptx" else ANSWERED, ANSWERED]
    assert launcher.check(REAL_PTXAS, "-g", "-arch=sm_90", name) == [UNCHANGED] * 2


@pytest.mark.skipif(not REAL_CLANG, reason="clang-19 is not here")
@pytest.mark.parametrize("kind", [["-c"], ["-S", "-emit-llvm"]])
def test_clang(launcher, kind):
    launcher.write("a.h", "#define N 1.0f\n")
    launcher.write("k.hip", '#include "a.h"\n#warning w\nextern "C" __attribute__((global)) '
                   'void k(float *x) { *x = N; }\n')
    compile = [REAL_CLANG, "-x", "hip", "--offload-arch=gfx942", "--cuda-device-only", "-nogpuinc",
               "-nogpulib", "-O3", "--no-gpu-bundle-output", *kind, "k.hip"]
    assert launcher.check(*compile) == [STORED, ANSWERED]
    launcher.write("a.h", "#define N 2.0f\n")
    assert launcher.check(*compile) == [STORED, ANSWERED]
