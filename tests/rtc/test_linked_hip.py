# SPDX-License-Identifier: MIT
"""Ways in which a C program calls hiprtc. The library is a fake one, and the one that the variable
KILN_RTC_HIPRTC names."""
import os
import pathlib
import subprocess

import pytest

from conftest import WAIT_MAX_S
from jobs import Job
from jobs import daemon  # noqa: F401 (a fixture)
from test_rtc import FAKE_HIP, HIP

LIBRARIES = [FAKE_HIP, *([HIP] if "KILN_RTC_HIPRTC" in os.environ else [])]
SOURCE = pathlib.Path(__file__).with_name("hip_job.c")


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Returns a function that builds hip_job.c, once for the same options of the compiler."""
    directory = tmp_path_factory.mktemp("programs")

    def build_once(*options):
        program = directory / str(abs(hash(options)))
        if not program.exists():
            subprocess.run(["cc", str(SOURCE), "-o", str(program), *options, "-ldl"], check=True,
                           timeout=WAIT_MAX_S)
        return program
    return build_once


class CJob(Job):
    """Runs a program with the arguments that are given for each way."""

    def command(self, *arguments):
        return [*map(str, arguments)]


def program_of(way, library, build):
    """Returns a program that finds hiprtc in this way, and its arguments."""
    if way in ("lazy", "now"):
        return [build("-DLINKED", f"-Wl,-z,{way}", f"-L{library.parent}", f"-l:{library.name}")]
    return [build(), *{"path": [library], "soname": [library.name],
                       "deepbind": [library, "deepbind"]}[way]]


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.name)
@pytest.mark.parametrize("way", ["lazy", "now", "path", "soname", "deepbind"])
def test_a_second_process_does_not_compile(daemon, tmp_path, build, way, library):  # noqa: F811
    daemon.kilnctl("clear", "--own", "--yes")
    job, program = CJob(daemon, tmp_path), program_of(way, library, build)
    expected = job.run(*program, plain=True)
    assert "compile 0" in expected
    job.compiles()
    assert job.run(*program) == expected
    assert job.run(*program) == expected
    assert "answered by kilnd" in job.said
    assert job.compiles() == (1 if library == FAKE_HIP else 0)  # only the fake one counts
