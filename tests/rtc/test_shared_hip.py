# SPDX-License-Identifier: MIT
"""Compiles that kilnd does with its own hiprtc, for all users."""
import json
import os
import shutil
import subprocess

import pytest

from conftest import WAIT_MAX_S, Daemon
from jobs import HERE, counts  # noqa: F401 (a fixture)
from test_rtc import FAKE_HIP, HIP, HipJob

LIBRARIES = [path for path in (FAKE_HIP, HIP) if path.exists()]
SOURCE = "template <class T> __global__ void t(T *x) { *x = 1; }\n"
TARGET = "--offload-arch=gfx90a"


def copy_fakes(to):
    """Copies the fake libraries, because the sandbox of kilnd's compilers may not read below the
    build's directory."""
    (to / "lib").mkdir(parents=True)
    shutil.copyfile(FAKE_HIP, to / "lib/libamdhip64.so")
    shutil.copyfile(HERE / "libamd_comgr.so.99", to / "lib/libamd_comgr.so.99")


@pytest.fixture(scope="module", params=LIBRARIES, ids=lambda path: path.name)
def daemon(request):
    d = Daemon()
    d.library = request.param
    d.environment["KILND_FAILURE_TTL"] = "0s"
    os.chmod(d.directory, 0o755)
    if request.param == FAKE_HIP:
        copy_fakes(d.directory / "rocm")
        d.environment.update(KILN_ROCM_PATH=str(d.directory / "rocm"),
                             LD_LIBRARY_PATH=str(d.directory / "rocm/lib"))
    try:
        d.start()
        yield d
    finally:
        d.remove()


@pytest.fixture
def job(daemon, tmp_path):
    return HipJob(daemon, tmp_path)


def check(job, counts, expected, *arguments, **options):  # noqa: F811
    """Checks that a program prints the same as without libkiln-rtc, and how it was compiled."""
    options["library"] = job.daemon.library
    alone = job.run(*arguments, plain=True, **options)
    assert "compile 0" in alone
    assert job.run(*arguments, **options) == alone
    assert counts() == expected, job.said


def needs(job, library):
    if job.daemon.library != library:
        pytest.skip(f"needs {library}")


@pytest.mark.parametrize("options", [
    ["--offload-arch=gfx906"], ["--gpu-architecture=gfx1030"],
    ["--offload-arch=gfx90a:sramecc+:xnack-", "-O3", "-std=c++17", "-DN=2", "-Wno-unused"]])
def test_kilnd_compiles_once_what_is_in_memory(job, counts, options):  # noqa: F811
    source = SOURCE + """
        static __device__ int s;
        namespace { __device__ int n; }
        extern "C" __global__ void k(float *x) { *x = sinf(x[1]) / x[2] + atomicAdd(&s, n); }"""
    check(job, counts, [1, 0, 0], source, *options)
    check(job, counts, [0, 0, 1], source, *options)


def test_headers_in_memory_are_inputs(job, counts):  # noqa: F811
    source = '#include "a.h"\n#include <b/c.h>\n' + SOURCE + "__device__ int a = A + C;"
    arguments = [source, TARGET, "--header=a.h=#define A 1", "--header=b/c.h=#define C 2"]
    (job.directory / "a.h").write_text("#error the header in memory comes first")
    check(job, counts, [1, 0, 0], *arguments)
    check(job, counts, [0, 0, 1], *arguments)
    if job.daemon.library != FAKE_HIP:
        check(job, counts, [1, 0, 0], *(part.replace("C 2", "C 3") for part in arguments))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as two users")
def test_another_user_is_answered(job, counts):  # noqa: F811
    arguments = [SOURCE + "__device__ int u;", TARGET]
    os.chmod(job.daemon.socket, 0o666)
    expected = job.run(*arguments, library=job.daemon.library)
    counts()
    environment = dict(job.environment, HOME="/nonexistent")
    del environment["FAKE_NVRTC_LOG"]
    done = subprocess.run(job.command(*arguments, library=job.daemon.library), env=environment,
                          user=12345, group=12345, extra_groups=[], text=True, cwd="/",
                          capture_output=True, timeout=WAIT_MAX_S, check=True)
    assert done.stdout == expected
    assert counts() == [0, 0, 1], done.stderr


def test_the_current_devices_architecture_is_an_input(job, counts):  # noqa: F811
    needs(job, FAKE_HIP)
    source = SOURCE + "__device__ int d;"
    for device in "gfx906", "gfx90a:sramecc+:xnack-":
        environment = {"FAKE_HIP_DEVICE": device}
        check(job, counts, [1, 0, 0], source, environment=environment)
        check(job, counts, [0, 0, 1], source, environment=environment)
        check(job, counts, [0, 0, 1], source, f"--offload-arch={device}")


@pytest.mark.parametrize("file", ["hiprtc_runtime.h", "hiprtc_runtime.h.pch",
                                  "hiprtc_runtime.h.gch"])
def test_a_file_in_place_of_hiprtcs_header_prevents_sharing(job, counts, file):  # noqa: F811
    needs(job, FAKE_HIP)
    (job.directory / file).touch()
    check(job, counts, [0, 1, 0], f"{SOURCE}// {file}", TARGET)


@pytest.mark.parametrize("change", [
    {"arguments": ["--name="]}, {"arguments": ["--name=a/b.cu"]}, {"arguments": ["-I."]},
    {"source": "// __FILE__"}, {"source": '// asm(".incbin")'},
    {"environment": {"ROCM_PATH": "/nonexistent"}}, {"environment": {"GPU_ENABLE_WGP_MODE": "1"}},
    {"environment": {"LLD_VERSION": "1"}}])
def test_a_program_compiles_by_itself_what_depends_on_more(job, counts, change):  # noqa: F811
    arguments = [f"{SOURCE}// {change}\n{change.get('source', '')}", TARGET,
                 *change.get("arguments", [])]
    check(job, counts, [0, 1, 0], *arguments, environment=change.get("environment", {}))


def failed_compiles(daemon):
    return json.loads(daemon.kilnctl("stats", "--json"))["compile_errors"]


def test_results_with_the_path_of_a_temporary_file_are_not_shared(job, counts):  # noqa: F811
    needs(job, HIP)
    arguments = [SOURCE + "\n#warning w", TARGET]
    job.run(*arguments, library=job.daemon.library)
    assert counts() == [0, 1, 0], job.said
    failed = failed_compiles(job.daemon)
    job.run(*arguments, library=job.daemon.library)
    assert counts() == [0, 0, 1], job.said
    assert failed_compiles(job.daemon) == failed > 0
