# SPDX-License-Identifier: MIT
"""Tests libkiln-rtc in programs that compile with comgr, as MIOpen does."""
import os
import pathlib
import random
import re
import subprocess

import pytest

from conftest import WAIT_MAX_S
from jobs import HERE, Job, daemon  # noqa: F401  (a fixture)

COMGR = pathlib.Path(os.environ.get("KILN_RTC_COMGR",
                                    "/usr/lib/x86_64-linux-gnu/libamd_comgr.so.2"))
IS_COMGR_2 = COMGR.name.endswith(".so.2")
LINKED = HERE / "kiln_comgr_job_linked"
STORED, ANSWERED = "compiled here and stored", "answered by kilnd"

pytestmark = pytest.mark.skipif(not COMGR.exists(), reason=f"{COMGR} is not here")


def options(*names):
    return [part for name in names for part in ("--option", name)]


OPENCL = ["--chain", "opencl", *options(
    "-DN=2", "-cl-kernel-arg-info", "-D__IMAGE_SUPPORT__=1", "-D__OPENCL_VERSION__=120", "-mllvm",
    "-amdgpu-early-inline-all", "-O3", "-Wno-everything")]
OPENCL_SOURCE = ("__kernel void k(__global float *x) { size_t i = get_global_id(0); "
                 "x[i] = sin(x[i]) + N; }\n")
ASSEMBLY = ["--chain", "assembly", "--name", "k.s", *options(
    "-Wa,-defsym,N=3", "-mcode-object-version=4", "-mno-xnack" if IS_COMGR_2 else "--rocm-path=.")]
ASSEMBLY_SOURCE = """
.text
.globl k
.p2align 8
.type k,@function
k:
  s_mov_b32 s0, N
  s_endpgm
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_next_free_vgpr 1
  .amdhsa_next_free_sgpr 8
.end_amdhsa_kernel
"""
HIP_CHAIN, HIP_COMPILES = ("hip", 4) if IS_COMGR_2 else ("relocatable", 2)  # as MIOpen, as hiprtc 6
HIP = ["--chain", HIP_CHAIN, "--name", "k.cpp", "--include", "first.h=#define FIRST 1.0f\n",
       "--include", "second.h=#define SECOND 2.0f\n", *options(
           "-O3", "-DN=2", "-nogpuinc", "-std=c++14", "-Wno-everything", "-mllvm",
           "-amdgpu-early-inline-all=true", "-mllvm", "-amdgpu-function-calls=false")]
HIP_SOURCE = """
#include "first.h"
#include "second.h"
extern "C" __attribute__((device)) float __ocml_sin_f32(float);
extern "C" __attribute__((global)) void k(float *x) { *x = __ocml_sin_f32(FIRST + SECOND + N); }
"""
CHAINS = {"opencl": ([*OPENCL, OPENCL_SOURCE], 3), "assembly": ([*ASSEMBLY, ASSEMBLY_SOURCE], 2),
          "hip": ([*HIP, HIP_SOURCE], HIP_COMPILES)}


class ComgrJob(Job):
    """Runs tests/rtc/comgr_job. comgr's temporary files are in a directory of their own, which
    therefore changes if and only if comgr compiles."""

    def __init__(self, daemon, directory):
        super().__init__(daemon, directory)
        self.temporary = directory / "temporary"
        self.temporary.mkdir()
        self.environment["TMPDIR"] = str(self.temporary)

    def command(self, *arguments, program=None, library=COMGR):
        if program:
            return [str(program), *map(str, arguments)]
        return [str(HERE / "kiln_comgr_job"), "--library", str(library), *map(str, arguments)]

    def run(self, *arguments, **options):
        os.utime(self.temporary, (1, 1))
        output = super().run(*arguments, **options)
        self.has_compiled = os.stat(self.temporary).st_mtime != 1
        return output

    def ends(self):
        """Returns how often the compiles of the last run ended in each way."""
        ends = {}
        for line in self.said.splitlines():
            how = line.rpartition(": ")[2] if line.startswith("libkiln-rtc: ") else "other"
            ends[how] = ends.get(how, 0) + 1
        return ends

    def may_differ(self, line, arguments):
        """Returns whether comgr may print another line in another run. Bitcode and preprocessed
        sources contain the path of a temporary file, and debug information does so, too."""
        return line.startswith(("  kind 6 ", "  kind 1 ")) or "-g" in arguments

    def expect(self, *arguments, **options):
        """Runs a program without libkiln-rtc, twice. Returns the lines that it prints, and None for
        lines that comgr does not repeat."""
        first, second = [mask(self.run(*arguments, plain=True, **options)) for _ in range(2)]
        assert len(first) == len(second)
        for x, y in zip(first, second):
            assert x == y or self.may_differ(x, arguments)
        return [x if x == y else None for x, y in zip(first, second)]

    def check(self, *arguments, **options):
        """Checks that a program prints the same with and without libkiln-rtc, cold and warm.
        Returns how the compiles of the two runs ended."""
        expected = self.expect(*arguments, **options)
        cold = self.run(*arguments, **options)
        ends = [self.ends()]
        warm = self.run(*arguments, **options)
        for lines in mask(cold), mask(warm):
            assert len(lines) == len(expected)
            assert [line for line, e in zip(lines, expected) if e is not None] == [
                e for e in expected if e is not None]
        ends.append(self.ends())
        if set(ends[1]) == {ANSWERED}:  # comgr may not repeat an action that is not answered
            assert warm == cold
        return ends


def mask(output):
    return re.sub(r"comgr-[0-9a-f]{6}", "comgr-XXXXXX", output).splitlines()


@pytest.fixture
def job(daemon, tmp_path):
    daemon.kilnctl("clear", "--own", "--yes")
    return ComgrJob(daemon, tmp_path)


# ---- the chains of MIOpen ----

@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    """Returns a program that is linked with comgr."""
    if "KILN_RTC_COMGR" not in os.environ:
        if not LINKED.exists():
            pytest.skip("comgr was not installed when kiln was built")
        return LINKED
    program = tmp_path_factory.mktemp("linked") / "comgr_job"
    source = pathlib.Path(__file__).with_name("comgr_job.c")
    subprocess.run(["cc", "-DLINKED", "-o", program, source, f"-L{COMGR.parent}",
                    f"-l:{COMGR.name}"], check=True, timeout=WAIT_MAX_S)
    return program


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("is_linked", [False, True], ids=["dlopen", "linked"])
def test_a_second_process_does_not_compile(job, chain, is_linked, request):
    program = request.getfixturevalue("linked") if is_linked else None
    arguments, compiles = CHAINS[chain]
    assert job.check(*arguments, program=program) == [{STORED: compiles}, {ANSWERED: compiles}]
    assert not job.has_compiled


def test_results_without_a_log_are_answered(job):
    assert job.check("--no-log", *CHAINS["assembly"][0]) == [{STORED: 2}, {ANSWERED: 2}]


def test_a_warning_in_the_log_is_answered(job):
    source = "#warning attention\n" + OPENCL_SOURCE
    ends = job.check("--chain", "opencl", *options("-DN=1"), source)
    assert ends == [{STORED: 3}, {ANSWERED: 3}]
    assert "attention" in job.run("--chain", "opencl", *options("-DN=1"), source)


def test_several_sources_in_one_process_are_answered(job):
    arguments = [*ASSEMBLY, ASSEMBLY_SOURCE, ASSEMBLY_SOURCE.replace("s0", "s1")]
    assert job.check(*arguments) == [{STORED: 4}, {ANSWERED: 4}]


def test_the_preprocessor_is_forwarded(job):
    """Preprocessing is not a compile. comgr's own cache does not store its output either."""
    assert job.check("--chain", "preprocess", *options("-DN=2"), OPENCL_SOURCE) == [{}, {}]
    assert job.has_compiled


# ---- what a result depends on ----

@pytest.mark.parametrize("arguments", [
    ["--isa", "amdgcn-amd-amdhsa--gfx90a:xnack-"], ["--name", "other.cl"],
    ["--include", "a.h=int a;"], ["--option", "-DM=1"], ["--directory", "/tmp"], ["--no-log"]])
def test_every_input_is_part_of_the_key(job, arguments):
    given = ["--chain", "opencl", *options("-DN=1")]
    job.run(*given, OPENCL_SOURCE)
    assert STORED in job.check(*given, *arguments, OPENCL_SOURCE)[0]


def test_the_text_of_an_include_is_part_of_the_key(job):
    given, _ = CHAINS["hip"]
    job.run(*given)
    changed = [part.replace("2.0f", "3.0f") for part in given]
    assert job.check(*changed) == [{STORED: HIP_COMPILES}, {ANSWERED: HIP_COMPILES}]


def test_the_current_directory_matters_only_if_it_reaches_the_output(job):
    for given, ends in ([], {ANSWERED: 3}), (["--option", "-g"], {STORED: 3}):
        for name in "first", "second":
            directory = job.directory / name / str(len(given))
            directory.mkdir(parents=True)
            job.run(*given, *OPENCL, OPENCL_SOURCE, cwd=directory,
                    environment={"PWD": str(directory)})
        assert job.ends() == ends


# ---- what is not answered ----

def test_errors_are_comgrs_own(job):
    for _ in range(2):
        ends = job.check("--chain", "opencl", "#error no\n")
        assert ends == [{"the compile failed": 1}] * 2
    assert "error: no" in job.run("--chain", "opencl", "#error no\n")


def test_an_error_in_assembly_is_comgrs_own(job):
    assert job.check(*ASSEMBLY, "nonsense\n") == [{"the compile failed": 1}] * 2


@pytest.mark.parametrize("option", ["-save-temps", "-Wl,-q", "-time"])
def test_options_with_side_effects_are_forwarded(job, option):
    job.run("--chain", "opencl", *options("-DN=1", option), OPENCL_SOURCE)
    assert "an option is unknown or has side effects" in job.ends()


@pytest.mark.parametrize("option", ["-stats", "-print-after-all"])
def test_options_of_llvm_that_print_are_forwarded(job, option):
    job.run(*ASSEMBLY, *options("-mllvm", option), ASSEMBLY_SOURCE)
    assert "an option is unknown or has side effects" in job.ends()


BITCODE, INCLUDE = "6", "2"  # kinds of objects


@pytest.mark.parametrize("given, reason", [
    pytest.param(["--text", "-DN=1"], "the options are given as one text",
                 marks=pytest.mark.skipif(not IS_COMGR_2, reason="comgr 3 lacks the function")),
    (["--input", BITCODE], "the inputs are of several kinds"),
    (["--result", INCLUDE], "the set for the results is not empty")])
def test_unusual_actions_are_forwarded(job, given, reason):
    for ends in job.check(*given, *ASSEMBLY, ASSEMBLY_SOURCE):
        assert reason in ends


@pytest.mark.parametrize("name", [
    "AMD_COMGR_SAVE_TEMPS", "AMD_COMGR_REDIRECT_LOGS", "AMD_COMGR_TIME_STATISTICS",
    "AMD_COMGR_EMIT_VERBOSE_LOGS", "AS_SECURE_LOG_FILE", "LLD_REPRODUCE"])
def test_variables_that_let_comgr_write_more_are_forwarded(job, name):
    job.run(*CHAINS["assembly"][0], environment={name: str(job.directory / "1")})
    assert job.ends() == {"an environment variable adds options": 2}


def test_a_process_that_changes_the_environment_is_forwarded(job):
    """comgr reads HIP_PATH only once."""
    arguments = ["--environment", "HIP_PATH=/nonexistent", *ASSEMBLY, ASSEMBLY_SOURCE,
                 ASSEMBLY_SOURCE.replace("s0", "s1")]
    changed = "the process has changed an environment variable that the compiler reads"
    assert job.check(*arguments) == [{STORED: 2, changed: 2}, {ANSWERED: 2, changed: 2}]


@pytest.mark.parametrize("where", ["source", "include"])
def test_sources_with_the_time_are_forwarded(job, where):
    line = "int seconds = sizeof(__TIME__);\n"
    given = ["--include", f"a.h={line}"] if where == "include" else []
    job.run("--chain", HIP_CHAIN, "--name", "k.cpp", *given, *options("-nogpuinc"),
            line if where == "source" else "int i;\n")
    assert any("the time of its compile" in reason for reason in job.ends())


@pytest.mark.parametrize("environment", [{"KILN_RTC": "off"}, {"KILN_SOCKET": "/nonexistent/sock"}])
def test_without_kiln_the_program_compiles_itself(job, environment):
    job.check(*CHAINS["assembly"][0], environment=environment)
    assert job.has_compiled


def test_record_stores_and_does_not_answer(job):
    job.run(*CHAINS["assembly"][0], environment={"KILN_RTC": "record"})
    job.run(*CHAINS["assembly"][0], environment={"KILN_RTC": "record"})
    assert job.has_compiled
    job.run(*CHAINS["assembly"][0])
    assert not job.has_compiled


# ---- generated compiles ----

ISAS = ["amdgcn-amd-amdhsa--" + name for name in
        ("gfx906", "gfx906:xnack-", "gfx90a", "gfx90a:sramecc+:xnack-", "gfx1030",
         *(() if IS_COMGR_2 else ("gfx942", "gfx1100", "gfx1201")))]
OPTIONS = [["-DN=3"], ["-DM=1"], ["-O1"], ["-O3"], ["-g"], ["-Wall"], ["-Wno-everything"],
           ["-mcode-object-version=4"], ["-mllvm", "-amdgpu-early-inline-all"], ["-I", "."],
           ["-mllvm", "-stats"], ["-save-temps"], ["-nonsense"], ["-mcumode"]]
LINES = {"opencl": ["#warning attention", "#include \"a.h\"", "__constant int c = M;",
                    "// a comment", "#error no", "__constant char *f = __FILE__;"],
         "assembly": [".set A, 1", "// a comment", ".include \"a.h\"", "nonsense"],
         "hip": ["#include \"first.h\"", "#include \"a.h\"", "// a comment", "#error no",
                 "__attribute__((device)) const char *t = \"__TIME__\";"]}


class Case:
    """The arguments of comgr_job, some of them chosen at random."""

    def __init__(self, r):
        self.chain = r.choice(list(CHAINS))
        self.isa = r.choice(ISAS)
        self.name = r.choice(("k.cl", "k.s", "k.cpp", "sub/k.cl", "a b.cl"))
        self.options = [part for option in r.sample(OPTIONS, r.choice((0, 0, 1, 2)))
                        for part in option]
        self.lines = r.sample(LINES[self.chain], r.choice((0, 0, 0, 1, 2)))
        self.includes = r.choice(([], ["a.h=// nothing\n"]))
        self.extra = r.choice(([], [], [], ["--no-log"], ["--directory", "/tmp"]))

    def change(self, r):
        """Changes one input, or none."""
        other = Case(random.Random(r.random()))
        what = r.choice(("nothing", "isa", "name", "options", "includes", "extra"))
        if what != "nothing":
            setattr(self, what, getattr(other, what))

    def arguments(self):
        given, _ = CHAINS[self.chain]
        includes = [part for include in self.includes for part in ("--include", include)]
        return [*given[:-1], "--isa", self.isa, "--name", self.name, *options(*self.options),
                *includes, *self.extra, "".join(line + "\n" for line in self.lines) + given[-1]]


@pytest.mark.parametrize("seed", range(int(os.environ.get("KILN_RTC_CASES", "200")) // 50))
def test_generated_compiles(job, seed):
    r = random.Random(seed + int(os.environ.get("KILN_RTC_FIRST", "0")))
    case = Case(r)
    for _ in "AB":
        cold, warm = job.check(*case.arguments())
        if not set(cold) - {STORED, ANSWERED}:
            assert set(warm) == {ANSWERED}
        case.change(r)
