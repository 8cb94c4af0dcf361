# SPDX-License-Identifier: MIT
"""libkiln-rtc with versions of comgr that are not installed: fake ones, which assemble and link."""
from jobs import HERE
from test_comgr import ANSWERED, ASSEMBLY, ASSEMBLY_SOURCE, STORED
from test_comgr import daemon, job  # noqa: F401 (fixtures)
from test_rtc import kilnctl_run

FAKE, FAKE_3 = HERE / "libamd_comgr.so.99", HERE / "libkiln_fake_comgr_3.so"
UNKNOWN = "this version of comgr is not known"


def test_comgr_2_8_is_answered(job):  # noqa: F811
    arguments = [*ASSEMBLY, ASSEMBLY_SOURCE]
    assert job.check(*arguments, library=FAKE) == [{STORED: 2}, {ANSWERED: 2}]
    assert not job.has_compiled


def test_comgr_3_is_forwarded_and_explained(job):  # noqa: F811
    """Its actions have other numbers."""
    arguments = [*ASSEMBLY, ASSEMBLY_SOURCE]
    assert job.check(*arguments, library=FAKE_3) == [{UNKNOWN: 2}, {UNKNOWN: 2}]
    done = kilnctl_run(job, "--explain", "--", *job.command(*arguments, library=FAKE_3))
    assert f"loaded: comgr {FAKE_3}" in done.stderr
    assert f"without kilnd: {UNKNOWN}" in done.stderr
