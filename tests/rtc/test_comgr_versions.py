# SPDX-License-Identifier: MIT
"""libkiln-rtc with versions of comgr that are not installed: fake ones, which assemble and link."""
import pytest

from jobs import HERE
from test_comgr import ANSWERED, ASSEMBLY, ASSEMBLY_SOURCE, STORED
from test_comgr import daemon, job  # noqa: F401 (fixtures)
from test_rtc import kilnctl_run

FAKE = HERE / "libamd_comgr.so.99"
COMGR_3 = HERE / "comgr_3/libamd_comgr.so.3"
UNKNOWN = "this version of comgr is not known"


@pytest.mark.parametrize("minor", [4, 9])
def test_comgr_2_4_to_2_9_is_answered(job, minor):  # noqa: F811
    arguments = [*ASSEMBLY, ASSEMBLY_SOURCE]
    options = {"library": FAKE, "environment": {"FAKE_COMGR_MINOR": str(minor)}}
    assert job.check(*arguments, **options) == [{STORED: 2}, {ANSWERED: 2}]
    assert not job.has_compiled


@pytest.mark.parametrize("minor", [0, 1])
def test_comgr_3_is_answered(job, minor):  # noqa: F811
    """Its actions have other numbers."""
    options = {"library": COMGR_3, "environment": {"FAKE_COMGR_MINOR": str(minor)}}
    assert job.check(*ASSEMBLY, ASSEMBLY_SOURCE, **options) == [{STORED: 2}, {ANSWERED: 2}]
    assert not job.has_compiled


@pytest.mark.parametrize("library, minor", [(FAKE, 9), (COMGR_3, 0)])
@pytest.mark.parametrize("chain, compiles", [("relocatable", 2), ("executable", 1)])
def test_a_compile_to_machine_code_is_answered(job, library, minor, chain, compiles):  # noqa: F811
    options = {"library": library, "environment": {"FAKE_COMGR_MINOR": str(minor)}}
    assert job.check("--chain", chain, "a source", **options) == [
        {STORED: compiles}, {ANSWERED: compiles}]
    assert not job.has_compiled


@pytest.mark.parametrize("setting", ["--device-libraries", "--vfs"])
def test_settings_that_cannot_be_read_back_are_part_of_the_key(job, setting):  # noqa: F811
    options = {"library": COMGR_3, "environment": {"FAKE_COMGR_MINOR": "1"}}
    for value in "0", "1":
        assert job.check(*ASSEMBLY, setting, value, ASSEMBLY_SOURCE, **options) == [
            {STORED: 2}, {ANSWERED: 2}]


@pytest.mark.parametrize("name", [
    "LLVM_OVERRIDE_PRODUCER", "LLD_VERSION", "ELF_PACKAGE_METADATA", "OFFLOAD_BUNDLER_COMPRESS",
    "CLANG_NO_DEFAULT_CONFIG"])
def test_variables_of_llvm_are_part_of_the_key(job, name):  # noqa: F811
    """comgr 3 links with LLVM 21, which reads them."""
    for more in {}, {name: "1"}:
        assert job.check(*ASSEMBLY, ASSEMBLY_SOURCE, library=COMGR_3, environment={
            "FAKE_COMGR_MINOR": "1", **more}) == [{STORED: 2}, {ANSWERED: 2}]


def test_an_input_of_an_unknown_kind_is_forwarded(job):  # noqa: F811
    reason = "an input is of an unknown kind"
    for ends in job.check("--input", "17", *ASSEMBLY, ASSEMBLY_SOURCE, library=FAKE,
                          environment={"FAKE_COMGR_MINOR": "8"}):
        assert reason in ends


@pytest.mark.parametrize("minor", [3, 10])
def test_other_versions_of_comgr_2_are_forwarded(job, minor):  # noqa: F811
    options = {"library": FAKE, "environment": {"FAKE_COMGR_MINOR": str(minor)}}
    assert job.check(*ASSEMBLY, ASSEMBLY_SOURCE, **options) == [{UNKNOWN: 2}, {UNKNOWN: 2}]


@pytest.mark.parametrize("major", [3, 4])
def test_later_versions_of_comgr_are_forwarded_and_explained(job, major):  # noqa: F811
    """comgr 3.8 and 4.8 are not known."""
    library = HERE / f"comgr_{major}/libamd_comgr.so.{major}"
    arguments = [*ASSEMBLY, ASSEMBLY_SOURCE]
    assert job.check(*arguments, library=library) == [{UNKNOWN: 2}, {UNKNOWN: 2}]
    done = kilnctl_run(job, "--explain", "--", *job.command(*arguments, library=library))
    assert f"loaded: comgr {library}" in done.stderr
    assert f"without kilnd: {UNKNOWN}" in done.stderr
