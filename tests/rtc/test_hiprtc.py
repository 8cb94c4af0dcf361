# SPDX-License-Identifier: MIT
"""Compares hiprtc with and without libkiln-rtc on generated programs."""
import os
import pathlib
import random
import sys

import pytest

from jobs import daemon  # noqa: F401 (a fixture)
from test_comgr import ANSWERED, STORED, ComgrJob
from test_rtc import HIP

CASES = int(os.environ.get("KILN_RTC_CASES", "100"))
FIRST = int(os.environ.get("KILN_RTC_FIRST", "0"))
IS_ROCM_5 = HIP.name.endswith(".so.5")
ARCHITECTURES = ["gfx906", "gfx90a", "gfx90a:sramecc+:xnack-", "gfx1030",
                 *([] if IS_ROCM_5 else ["gfx942", "gfx1100", "gfx1201"])]
NAMES = ["k.cu", "sub/k.cu", "/tmp/a1b2c3/k.cu", "other name.cpp"]
OPTIONS = ["-DN=3", "-O1", "-O3", "-std=c++14", "-std=c++17", "-ffast-math", "-g", "-w", "-Wall",
           "-nonsense", *([] if IS_ROCM_5 else ["-fgpu-rdc"])]
LINES = ["#warning attention", "static __device__ int counter;", "#error no",
         "__device__ const char *file = __FILE__;", "#ifdef N\n__device__ int n = N;\n#endif",
         "namespace { __device__ int hidden; }", "// a comment"]
KERNELS = ("template <class T> __global__ void t(T *x) { *x = 1; }\n"
           'extern "C" __global__ void k(float *x) { *x = sinf(x[1]); }\n')

pytestmark = pytest.mark.skipif(not HIP.exists(), reason=f"{HIP} is not here")


class HiprtcJob(ComgrJob):
    """Runs tests/rtc/hip_job.py with hiprtc itself."""

    def command(self, *arguments):
        return [sys.executable, str(pathlib.Path(__file__).with_name("hip_job.py")),
                *map(str, arguments)]

    def may_differ(self, line, arguments):
        """Returns whether a line may differ between runs of hiprtc, which compiles a temporary
        file. The file's path is in bitcode, in __FILE__ and in debug information, and a hash of the
        path is in the names of static variables."""
        words = " ".join(map(str, arguments))
        return line.startswith("Bitcode ") or (line.startswith("Code ") and any(
            word in words for word in ("__FILE__", "static", "namespace", " -g")))


class Case:
    """The arguments of hip_job.py, some of them chosen at random."""

    def __init__(self, r):
        self.architecture = r.choice(ARCHITECTURES)
        self.name = r.choice(NAMES)
        self.header = r.choice((None, "#define A 1\n", "#define A 2\n"))
        self.options = r.sample(OPTIONS, r.choice((0, 0, 1, 2)))
        self.lines = r.sample(LINES, r.choice((0, 0, 1, 2)))

    def change(self, r):
        """Changes one input, or none."""
        what = r.choice(("nothing", "architecture", "name", "header", "options", "lines"))
        if what != "nothing":
            setattr(self, what, getattr(Case(r), what))

    def arguments(self):
        header = ["--header", "a.h=" + self.header] if self.header else []
        include = '#include "a.h"\n__device__ int a = A;\n' if self.header else ""
        return [*header, "--name", self.name, HIP,
                include + "".join(line + "\n" for line in self.lines) + KERNELS,
                "--offload-arch=" + self.architecture, *self.options]


@pytest.fixture
def hiprtc_job(daemon, tmp_path):  # noqa: F811
    daemon.kilnctl("clear", "--own", "--yes")
    return HiprtcJob(daemon, tmp_path)


@pytest.mark.parametrize("seed", range(CASES // 50))
def test_generated_compiles_by_hiprtc(hiprtc_job, seed):
    r = random.Random(seed + FIRST)
    case = Case(r)
    for _ in "AB":
        cold, warm = hiprtc_job.check(*case.arguments())
        if not set(cold) - {STORED, ANSWERED}:
            assert set(warm) == {ANSWERED}
        case.change(r)
