# SPDX-License-Identifier: MIT
"""Checks that libkiln-rtc can be loaded by glibc 2.28, as in a container with an older system."""
import re
import subprocess

from conftest import WAIT_MAX_S
from jobs import PRELOAD

OLDEST = (2, 28)


def readelf(what):
    return subprocess.run(["readelf", "-W", what, PRELOAD], check=True, text=True,
                          capture_output=True, timeout=WAIT_MAX_S).stdout


def test_libkiln_rtc_needs_no_symbol_that_is_newer_than_glibc_2_28():
    needed = {tuple(map(int, version.split(".")))
              for version in re.findall(r"Name: GLIBC_([\d.]+)", readelf("--version-info"))}
    assert needed and max(needed)[:2] <= OLDEST, sorted(needed)


def test_libkiln_rtc_needs_the_libraries_that_had_its_symbols_before_glibc_2_34():
    needed = re.findall(r"\(NEEDED\).*\[(.*?)\.so", readelf("--dynamic"))
    assert {"libc", "libdl", "libpthread"} <= set(needed), needed


def test_libkiln_rtc_looks_for_libraries_only_where_every_program_does():
    """Each directory of a RUNPATH makes the start of every program slower."""
    assert "(NEEDED)" in readelf("--dynamic") and "PATH)" not in readelf("--dynamic")
