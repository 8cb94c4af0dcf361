# SPDX-License-Identifier: MIT
"""Private kilnds that take part in a fleet."""
from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import time
from typing import Callable

WAIT_MAX_S = 60
BIN = pathlib.Path(os.environ.get("KILN_BUILD", "build/release")) / "bin"
TARGET = "gfx90a:sramecc+:xnack-"


def wait_until(what: str, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_MAX_S
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"waited {WAIT_MAX_S} s for {what}")
        time.sleep(0.02)


class Host:
    """A kilnd in |directory|, which must not exist."""

    def __init__(self, directory: pathlib.Path, *arguments: str) -> None:
        self.directory = directory
        self.arguments = arguments
        directory.mkdir()
        self.environment = dict(os.environ, KILN_SOCKET=str(directory / "socket"),
                                KILN_FALLBACK="off")
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        places = [f"--{name}-dir={self.directory / name}" for name in ("cache", "state")]
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(
                [BIN / "kilnd", f"--socket={self.directory / 'socket'}", *places, "--workers=1",
                 "--package-path=", *self.arguments], stdout=log, stderr=log)
        wait_until("kilnd to answer", self._answers)

    def _answers(self) -> bool:
        if self.process and self.process.poll() is not None:
            raise AssertionError(f"kilnd ended:\n{self.log()}")
        return self._run("ping").returncode == 0

    def log(self) -> str:
        return (self.directory / "log").read_text(encoding="utf-8")

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([BIN / "kilnctl", *words], env=self.environment, text=True,
                              capture_output=True, timeout=WAIT_MAX_S, check=False)

    def kilnctl(self, *words: str) -> str:
        ran = self._run(*words)
        if ran.returncode:
            raise AssertionError(f"kilnctl {' '.join(words)}: {ran.stdout}{ran.stderr}\n"
                                 f"{self.log()}")
        return ran.stdout

    def prefetch(self, *problems: str) -> None:
        path = self.directory / "problems"
        path.write_text("\n".join(problems) + "\n", encoding="ascii")
        self.kilnctl("prefetch", str(path), "--target", TARGET, "--json")

    def await_leases(self, state: str) -> None:
        def has_state() -> bool:
            status = json.loads(self.kilnctl("status", "--json"))
            return bool(status["fleet"]["leases"] == state)

        wait_until(f"leases to be {state}", has_state)

    def stat(self, name: str) -> int:
        found = json.loads(self.kilnctl("stats", "--json"))
        for part in name.split("."):
            found = found[part]
        return int(found)

    def metric(self, name: str) -> int:
        for line in self.kilnctl("metrics").splitlines():
            if line.startswith(name + " "):
                return int(float(line.rsplit(" ", 1)[1]))
        return 0

    def stop(self) -> None:
        if not self.process:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=WAIT_MAX_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self.process = None
