# SPDX-License-Identifier: MIT
"""Compares NVRTC with and without libkiln-rtc on generated programs. scripts/test-rtc sets the
variables, to compare more of them."""
import os

import pytest

from sweep import NVRTC, sweep

CASES = int(os.environ.get("KILN_RTC_CASES", "30"))
FIRST = int(os.environ.get("KILN_RTC_FIRST", "0"))
SECONDS = int(os.environ.get("KILN_RTC_SECONDS", "1000000"))


@pytest.mark.skipif(not NVRTC.exists(), reason=f"{NVRTC} is not here")
def test_generated_programs_get_the_same_results():
    s = sweep(CASES, FIRST, SECONDS)
    s.report()
    assert not s.differences
    assert s.said["answered by kilnd"] > s.programs // 4  # the comparison must compare answers
