# SPDX-License-Identifier: MIT
"""Compiles that kilnd does with its own NVRTC, for all users."""
import concurrent.futures
import json

import pytest

from jobs import counts  # noqa: F401 (a fixture)
from test_rtc import NVRTC, daemon, job, kilnctl_run, requests  # noqa: F401 (fixtures)

pytestmark = pytest.mark.skipif(not NVRTC.exists(), reason=f"{NVRTC} is not here")

TARGET = ["--option", "--gpu-architecture=sm_90"]


def kernel(text):
    return f'extern "C" __global__ void k(float *x) {{ *x = {text}; }}'


def check(job, counts, expected, *arguments, **options):  # noqa: F811
    """Checks that a program prints the same as without libkiln-rtc, and how it was compiled."""
    plain = job.run(*arguments, plain=True, library=NVRTC, **options)
    assert job.run(*arguments, library=NVRTC, **options) == plain
    assert counts() == expected, job.said


def test_kilnd_compiles_once_what_is_in_memory(job, counts):  # noqa: F811
    arguments = ["--option", "--std=c++17", *TARGET, "--option", "-DN=1", kernel("N")]
    check(job, counts, [1, 0, 0], *arguments)
    before = requests(job)
    check(job, counts, [0, 0, 1], *arguments)
    assert requests(job) == before + 1


def test_headers_in_memory_and_name_expressions_are_inputs(job, counts):  # noqa: F811
    source = '#include "a.h"\\ntemplate <int n> __global__ void f(int *x) { *x = n + A; }'
    arguments = [*TARGET, "--name", "a_name.cu", "--header", "a.h=#define A 1", "--expression",
                 "f<2>", source]
    check(job, counts, [1, 0, 0], *arguments)
    check(job, counts, [0, 0, 1], *arguments)
    check(job, counts, [1, 0, 0], *arguments[:-2], "f<3>", source)
    check(job, counts, [1, 0, 0], *(part.replace("A 1", "A 2") for part in arguments))


@pytest.mark.parametrize("name", ["first.cu", "second.cu"])
def test_a_name_in_the_output_is_an_input(job, counts, name):  # noqa: F811
    check(job, counts, [1, 0, 0], *TARGET, "--name", name,
          "#warning w\\n__global__ void k(const char **x) { *x = __FILE__; }")


@pytest.mark.parametrize("arguments", [
    ["--option", "-lineinfo", kernel("1")],
    ["--name", "a/b.cu", kernel("2")],
    ["--option", "-I.", kernel("3")],
    ["#if __has_include(<a.h>)\\n#endif\\n" + kernel("4")]])
def test_a_program_compiles_by_itself_what_depends_on_more(job, counts, arguments):  # noqa: F811
    check(job, counts, [0, 1, 0], *TARGET, *arguments)


def test_internal_names_are_not_shared(job, counts):  # noqa: F811
    """Internal names contain a hash that may depend on the directory. NVRTC's output with them may
    differ from run to run."""
    job.run(*TARGET, "namespace { __device__ int s; }\\n__global__ void k(int *x) "
            "{ *x = atomicAdd(&s, 1); }", library=NVRTC)
    assert counts() == [0, 1, 0], job.said


def test_a_program_without_a_target_compiles_by_itself(job, counts):  # noqa: F811
    check(job, counts, [0, 1, 0], kernel("5"))


def test_an_error_is_the_programs_own(job, counts):  # noqa: F811
    check(job, counts, [0, 0, 0], *TARGET, "#error no")


def test_processes_that_need_the_same_compile_share_it(job, counts):  # noqa: F811
    arguments = [*TARGET, kernel("6")]
    plain = job.run(*arguments, plain=True, library=NVRTC)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        outputs = list(pool.map(lambda _: job.run(*arguments, library=NVRTC), range(8)))
    assert outputs == [plain] * 8
    compiled, stored, _ = counts()
    assert (compiled, stored) == (1, 0)


def test_kilnctl_says_what_kilnd_compiled(job, counts):  # noqa: F811
    command = ["--", *job.command(*TARGET, kernel("7"), library=NVRTC)]
    report = json.loads(kilnctl_run(job, "--explain", "--json", *command).stderr)
    assert [report[name] for name in ("answered", "compiled_by_kilnd", "saved_s")] == [1, 1, 0]
    assert "kilnd compiled" not in kilnctl_run(job, "--explain", *command).stderr
    assert counts() == [1, 0, 1]
