# SPDX-License-Identifier: MIT
"""Hosts of the fleet: each runs a kilnd, in directories of its own."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import time
from typing import Any, NamedTuple

import network
import stores

TARGET = "gfx90a:sramecc+:xnack-"
MOST_PREFERRED, LEAST_PREFERRED = -10, 19
START_MAX_S, STOP_MAX_S, COMMAND_MAX_S = 120.0, 60, 900


class Failed(Exception):
    """A command of kiln failed, or had a wrong result."""


class Build(NamedTuple):
    """The programs under test, and the problems whose kernels they compile."""
    programs: pathlib.Path
    problems: pathlib.Path


class Result(NamedTuple):
    seconds: float
    status: int
    output: str
    errors: str

    def json(self) -> Any:
        return json.loads(self.output.splitlines()[-1])


def prefer(pid: int, nice: int) -> None:
    """Sets the niceness of the session of process |pid|, if Linux schedules sessions as groups.
    The store must get the processors before the hosts: otherwise its answers come too late, which
    no store with processors of its own does."""
    with contextlib.suppress(OSError):
        pathlib.Path(f"/proc/{pid}/autogroup").write_text(str(nice), encoding="ascii")


class Host:
    """A host with its kilnd. Without |place|, it is next to the store, without a delay."""

    def __init__(self, build: Build, directory: pathlib.Path,
                 place: tuple[network.Network, int] | None = None) -> None:
        self.build, self.place, self.directory = build, place, directory
        self.name = directory.name
        self.socket, self.log = self.directory / "kilnd.sock", self.directory / "kilnd.log"
        self.process: subprocess.Popen[bytes] | None = None
        for below in ("home", "run"):
            (self.directory / below).mkdir(parents=True)
        self.directory.chmod(0o711)

    def _environment(self, user: stores.User | None) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("KILN", "XDG_", "AWS_"))}
        own = {"HOME": "home", "XDG_RUNTIME_DIR": "run", "XDG_CACHE_HOME": "home/cache",
               "XDG_STATE_HOME": "home/state", "XDG_CONFIG_HOME": "home/config"}
        kept.update({key: str(self.directory / below) for key, below in own.items()})
        kept.update({"KILN_SOCKET": str(self.socket), "KILN_FALLBACK": "off"})
        if user is not None:
            kept.update({"AWS_ACCESS_KEY_ID": user.access, "AWS_SECRET_ACCESS_KEY": user.secret,
                         "AWS_REGION": "us-east-1"})
        return kept

    def _inside(self) -> contextlib.AbstractContextManager[None]:
        return self.place[0].inside(self.place[1]) if self.place else contextlib.nullcontext()

    def launch(self, *settings: str, user: stores.User | None = None) -> None:
        """Starts kilnd. |user| is the user of the object store, for kiln-transfer."""
        command = [str(self.build.programs / "kilnd"), "--socket", str(self.socket), "--cache-dir",
                   str(self.directory / "cache"), "--state-dir", str(self.directory / "state"),
                   "--log-format", "text", "--package-path", "", *settings]
        with self._inside(), self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, env=self._environment(user),
                                            start_new_session=True)
        prefer(self.process.pid, LEAST_PREFERRED)

    def start(self, *settings: str, user: stores.User | None = None) -> None:
        self.launch(*settings, user=user)
        self.await_start()

    def await_start(self) -> None:
        stores.wait_until(f"kilnd of {self.name} to answer", self._answers, START_MAX_S)

    def _answers(self) -> bool:
        assert self.process
        if self.process.poll() is not None:
            raise Failed(f"kilnd of {self.name} ended: {self.log.read_text(errors='replace')}")
        return self.socket.exists() and self.kilnctl("ping", fails=True).status == 0

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_MAX_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"kilnd of {self.name} did not end within {STOP_MAX_S} s") from None
        self.process = None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(STOP_MAX_S)
            self.process = None

    def command(self, *words: str, fails: bool = False, user: stores.User | None = None) -> Result:
        """Runs a command with the host's environment. The command may fail if |fails| is set.
        |user| is the user of the object store."""
        begin = time.monotonic()
        done = subprocess.run(words, capture_output=True, text=True, errors="replace",
                              env=self._environment(user), timeout=COMMAND_MAX_S, check=False)
        if done.returncode != 0 and not fails:
            raise Failed(f"{' '.join(words)}: status {done.returncode}: {done.stderr}")
        return Result(time.monotonic() - begin, done.returncode, done.stdout, done.stderr)

    def kilnctl(self, *words: str, fails: bool = False, user: stores.User | None = None) -> Result:
        return self.command(str(self.build.programs / "kilnctl"), *words, fails=fails, user=user)

    def prefetch(self, problems: pathlib.Path | None = None) -> Result:
        """Requests all kernels of a neural network and waits for them, as a job does."""
        return self.kilnctl("prefetch", str(problems or self.build.problems), "--target", TARGET,
                            "--json")

    def try_compilers(self) -> None:
        """Lets kilnd find out whether its compilers work for the target. On a machine with few
        processors, this would take longer for many hosts than all compiles."""
        self.kilnctl("toolchain", "ls", "--probe", TARGET)

    def metric(self, name: str, **labels: str) -> int:
        """Returns the sum of all metrics with this name and these labels."""
        total = 0.0
        for line in self.kilnctl("metrics").output.splitlines():
            found = re.match(r"kiln_(\w+)(?:\{(.*)\})? (\S+)$", line)
            if found and found[1] == name and \
                    all(f'{key}="{value}"' in (found[2] or "") for key, value in labels.items()):
                total += float(found[3])
        return int(total)

    def compiled(self) -> int:
        return self.metric("compiles_total")

    def from_fleet(self) -> int:
        return self.metric("fetch_results_total", result="fleet")

    def leases(self) -> str:
        return str(self.kilnctl("status", "--json").json()["fleet"]["leases"])

    def objects(self) -> dict[str, str]:
        """Returns the SHA-256 of each stored kernel's object, by the kernel's key."""
        path = self.directory / "cache" / "kernels.db"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
            return dict(store.execute("select hex(k.key), hex(o.sha256) from kernel k "
                                      "join object o on o.id = k.object"))

    def transfer_pid(self) -> int | None:
        """Returns the pid of kiln-transfer --fleet, or None if it does not run."""
        assert self.process
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for pid in children.read_text(encoding="ascii").split():
            with contextlib.suppress(FileNotFoundError):
                if b"--fleet" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    return int(pid)
        return None
