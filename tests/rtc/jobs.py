# SPDX-License-Identifier: MIT
"""Runs programs that call a run-time compiler, with and without libkiln-rtc."""
import json
import subprocess

import pytest

from conftest import BUILD, WAIT_MAX_S, Daemon

HERE = BUILD / "tests/rtc"
FAKE = HERE / "libnvrtc.so.99"
PRELOAD = BUILD / "lib/libkiln-rtc.so.0"


class Job:
    """Runs tests/rtc/job with the fake compiler, which counts its compiles."""

    def __init__(self, daemon, directory):
        self.daemon = daemon
        self.directory = directory
        self.log = directory / "compiles"
        self.environment = dict(daemon.environment, LD_PRELOAD=str(PRELOAD), KILN_RTC_DEBUG="1",
                                KILN_RTC_PATIENCE=str(WAIT_MAX_S * 1000),
                                FAKE_NVRTC_LOG=str(self.log), LD_LIBRARY_PATH=str(HERE))

    def command(self, *arguments, program="kiln_rtc_job", library=FAKE):
        chosen = ["--library", str(library)] if library and program == "kiln_rtc_job" else []
        return [str(HERE / program), *chosen, *map(str, arguments)]

    def run(self, *arguments, plain=False, cwd=None, **options):
        environment = dict(self.environment, **options.pop("environment", {}))
        if plain:
            del environment["LD_PRELOAD"]
        done = subprocess.run(self.command(*arguments, **options), env=environment, text=True,
                              capture_output=True, timeout=WAIT_MAX_S, cwd=cwd or self.directory)
        assert done.returncode == 0, done.stderr
        self.said = done.stderr
        return done.stdout

    def compiles(self):
        """Returns how many times the compiler has compiled since the last call."""
        count = len(self.log.read_text().splitlines()) if self.log.exists() else 0
        self.log.unlink(missing_ok=True)
        return count

    def check(self, *arguments, **options):
        """Checks that a program prints the same with and without libkiln-rtc, cold and warm."""
        expected = self.run(*arguments, plain=True, **options)
        self.compiles()
        assert self.run(*arguments, **options) == expected
        cold = self.compiles()
        assert self.run(*arguments, **options) == expected
        return cold, self.compiles()


@pytest.fixture(scope="module")
def daemon():
    d = Daemon()
    try:
        d.start()
        yield d
    finally:
        d.remove()


@pytest.fixture
def counts(daemon):  # noqa: F811
    """Returns how three counts have grown since the last call: compiles by kilnd, compiles by
    programs, and compiles that were answered from a stored result."""
    before = {}

    def grown():
        now = json.loads(daemon.kilnctl("stats", "--json"))
        names = "client_programs", "client_compiles", "client_hits"
        growth = [now[name] - before.get(name, 0) for name in names]
        before.update(now)
        return growth

    grown()
    return grown
