# SPDX-License-Identifier: MIT
"""What a compile by NVRTC depends on, with NVRTC itself. The other tests assume these facts of it,
or a fake one imitates them."""
import subprocess
import sys

import pytest

from conftest import WAIT_MAX_S, wait_until
from test_files import is_old
from test_rtc import NVRTC, daemon, job  # noqa: F401 (fixtures)

pytestmark = pytest.mark.skipif(not NVRTC.exists(), reason=f"{NVRTC} is not here")

TARGET = ["--option", "-arch=sm_90"]
KERNEL = 'extern "C" __global__ void k(float *x) { *x = sinf(x[1]); }'
STATIC = ("static __device__ int s; namespace { __device__ int t; }\\n"
          'extern "C" __global__ void k(int *x) { *x = atomicAdd(&s, 1) + atomicAdd(&t, 1); }')
FILE = 'extern "C" __global__ void k(const char **x) { *x = __FILE__; }'
ANSWERED = "answered by kilnd"


class Outputs(dict):
    """The sizes and the hashes of a program's outputs, such as those of "cubin"."""

    def __init__(self, text):
        super().__init__()
        for line in text.splitlines():
            if not line.startswith(("compile", "lowered")):
                _, _, what, size, digest, *_ = line.split()
                self[what] = int(size), digest


def check(job, *arguments, **options):  # noqa: F811
    """Checks that a program prints the same as without libkiln-rtc, cold and warm. Returns what it
    prints, and whether the first run was answered."""
    plain = job.run(*arguments, plain=True, library=NVRTC, **options)
    assert job.run(*arguments, library=NVRTC, **options) == plain
    was_answered = ANSWERED in job.said
    assert job.run(*arguments, library=NVRTC, **options) == plain
    assert ANSWERED in job.said
    return plain, was_answered


PAIR = 'extern "C" __global__ void k(float *x, const float *y) { *x = *y; x[1] = *y; }'
KEEP = f"""
import ctypes, sys
library = ctypes.CDLL({str(NVRTC)!r})
for option in "--fmad=true", sys.argv[1], "--fmad=true":
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), {PAIR.encode()!r}, None, 0, None, None)
    options = (ctypes.c_char_p * 1)(option.encode())
    assert library.nvrtcCompileProgram(program, 1, options) == 0
    library.nvrtcGetPTXSize(program, ctypes.byref(size))
    print(size.value)
"""


def test_it_keeps_restrict_for_later_programs(job):  # noqa: F811
    """So libkiln-rtc does not store their results."""
    def sizes(option, **environment):
        done = subprocess.run([sys.executable, "-c", KEEP, option], text=True, check=True,
                              env={**job.environment, **environment}, capture_output=True,
                              timeout=WAIT_MAX_S)
        return done.stdout.split()
    first, second, third = sizes("--restrict", LD_PRELOAD="")
    assert first != second
    assert third == second
    assert sizes("--restrict") == [first, second, first]  # answered by what the first one stored
    assert sizes("--fmad=true") == [first, first, first]


@pytest.mark.parametrize("option", ["--restrict", "--optimization-info=inline"])
def test_a_program_with_an_option_that_it_keeps_is_answered(job, option):  # noqa: F811
    check(job, *TARGET, "--option", option, PAIR)


@pytest.mark.parametrize("option", ["-E", "--preprocess", "-M", "-MD", "--dependency-output", "-H",
                                    "--list-include"])
def test_it_has_no_option_that_lists_headers(job, option):  # noqa: F811
    arguments = [*TARGET, "--option", option, KERNEL]
    plain = job.run(*arguments, plain=True, library=NVRTC)
    assert plain.startswith("compile 5\n")  # NVRTC_ERROR_INVALID_OPTION
    assert job.run(*arguments, library=NVRTC) == plain
    assert "an option is unknown" in job.said


def test_headers_are_found_by_look_ups_that_libkiln_rtc_sees(job):  # noqa: F811
    for name in "first", "second":
        (job.directory / name).mkdir()
    for name in "a.h", "b.h":
        (job.directory / "second" / name).write_text(f"#define VALUE_{name[0]} 1\n")
    newest = job.directory / "second/b.h"
    arguments = [*TARGET, "--option", f"-I{job.directory}/first", "--option",
                 f"-I{job.directory}/second", '#include <a.h>\\n#include "b.h"\\n__global__ void '
                 "k(int *x) { *x = VALUE_a + VALUE_b; }"]
    for change in None, "second/a.h", "second/b.h", "first/b.h", "first/a.h":
        if change:
            newest = job.directory / change
            newest.write_text(newest.name.replace("a.h", "#define VALUE_a 2\n").replace(
                "b.h", "#define VALUE_b 3\n") + f"// {change}\n")
        wait_until("the clock to pass the header's time", lambda: is_old(newest))
        _, was_answered = check(job, *arguments)
        assert not was_answered, change


def test_a_name_is_not_in_the_usual_outputs(job):  # noqa: F811
    outputs = [check(job, *TARGET, "--name", name, "--option", "-I.", KERNEL)
               for name in ("/tmp/a1b2/k.cu", "/tmp/c3d4/other.cu")]
    assert outputs[0][0] == outputs[1][0]
    assert outputs[1][1]


@pytest.mark.parametrize("option, source", [("-lineinfo", KERNEL), ("-dlto", KERNEL),
                                            ("-I.", FILE), ("-I.", STATIC)],
                         ids=["lineinfo", "dlto", "file", "static"])
def test_a_name_is_in_other_outputs(job, option, source):  # noqa: F811
    outputs = []
    for name in "first.cu", "second.cu":
        arguments = [*TARGET, "--option", option, "--name", name, source]
        if source == STATIC:  # NVRTC's output for this source differs from run to run
            outputs.append(job.run(*arguments, library=NVRTC))
            assert ANSWERED not in job.said
            assert job.run(*arguments, library=NVRTC) == outputs[-1]
            assert ANSWERED in job.said
        else:
            plain, was_answered = check(job, *arguments)
            assert not was_answered
            outputs.append(plain)
    assert outputs[0] != outputs[1]


def test_the_directory_is_in_the_output_with_lineinfo_and_a_relative_name(job):  # noqa: F811
    outputs = []
    for name in "first", "second":
        directory = job.directory / name
        directory.mkdir()
        plain, was_answered = check(job, *TARGET, "--option", "-lineinfo", "--name", "k.cu", KERNEL,
                                    cwd=directory, environment={"PWD": str(directory)})
        assert not was_answered
        outputs.append(plain)
    assert outputs[0] != outputs[1]


@pytest.mark.parametrize("options, has", [
    (["-arch=sm_90"], {"cubin", "ptx"}), (["-arch=compute_90"], {"ptx"}),
    (["-arch=sm_90", "-dlto"], {"lto"}), (["-arch=sm_90", "--no-cache"], {"cubin", "ptx"}),
    (["-arch=compute_90", "--optix-ir"], {"optix"})])
def test_outputs_that_do_not_exist_have_the_same_sizes(job, options, has):  # noqa: F811
    arguments = [part for option in options for part in ("--option", option)]
    outputs = Outputs(check(job, *arguments, KERNEL)[0])
    assert {what for what, (size, _) in outputs.items() if size > 1 and what != "log"} == has
    assert outputs["ptx"][0] == 1 or "ptx" in has
