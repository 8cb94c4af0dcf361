# SPDX-License-Identifier: MIT
"""libkiln-rtc with versions of comgr that are not installed: fake ones, which assemble and link."""
import pytest

from jobs import HERE
from test_comgr import ANSWERED, ASSEMBLY, ASSEMBLY_SOURCE, STORED
from test_comgr import daemon, job  # noqa: F401 (fixtures)
from test_rtc import kilnctl_run

FAKE = HERE / "libamd_comgr.so.99"
UNKNOWN = "this version of comgr is not known"


@pytest.mark.parametrize("minor", [4, 8])
def test_comgr_2_4_to_2_8_is_answered(job, minor):  # noqa: F811
    arguments = [*ASSEMBLY, ASSEMBLY_SOURCE]
    options = {"library": FAKE, "environment": {"FAKE_COMGR_MINOR": str(minor)}}
    assert job.check(*arguments, **options) == [{STORED: 2}, {ANSWERED: 2}]
    assert not job.has_compiled


@pytest.mark.parametrize("minor", [3, 9])
def test_other_versions_of_comgr_2_are_forwarded(job, minor):  # noqa: F811
    options = {"library": FAKE, "environment": {"FAKE_COMGR_MINOR": str(minor)}}
    assert job.check(*ASSEMBLY, ASSEMBLY_SOURCE, **options) == [{UNKNOWN: 2}, {UNKNOWN: 2}]


@pytest.mark.parametrize("major", [3, 4])
def test_later_versions_of_comgr_are_forwarded_and_explained(job, major):  # noqa: F811
    """The actions of comgr 3 have other numbers, and comgr 4 lacks a function."""
    library = HERE / f"comgr_{major}/libamd_comgr.so.{major}"
    arguments = [*ASSEMBLY, ASSEMBLY_SOURCE]
    assert job.check(*arguments, library=library) == [{UNKNOWN: 2}, {UNKNOWN: 2}]
    done = kilnctl_run(job, "--explain", "--", *job.command(*arguments, library=library))
    assert f"loaded: comgr {library}" in done.stderr
    assert f"without kilnd: {UNKNOWN}" in done.stderr
