# SPDX-License-Identifier: MIT
"""Starts a kilnd as root in temporary directories, and processes of several users."""
from __future__ import annotations

import ctypes
import math
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import tempfile
import time
import traceback
from typing import Any, Callable, Iterable, NamedTuple, NoReturn, TypeVar

import wire

VICTIM, ATTACKER, ACCOMPLICE = 45001, 45002, 45003
START_MAX_S = 60
STOP_MAX_S = 60
MIB = 1 << 20

HOT_LIMIT = 64 * MIB
QUEUE_PER_UID = 256 * MIB  # kilnd's default, like QUEUE_BYTES
QUEUE_BYTES = 1024 * MIB
KILND_ITSELF = 64 * MIB
# bytes of received code objects that each user may keep open: 256 MiB, or hot-limit if that is
# larger
HELD_PER_UID = 256 * MIB
HELD_BYTES = 4 * HELD_PER_UID
OBJECT_FILE = "/memfd:kiln-object"
SETTINGS = {
    "hot-limit": str(HOT_LIMIT),
    # small, so that kilnd reads most of the victim's kernels from the disk
    "hot-count": "16",
    "queue-bytes": str(QUEUE_BYTES),
    "queue-bytes-per-uid": str(QUEUE_PER_UID),
    "workers": "2",
    "compile-timeout": "40s",
    "drain-timeout": "1s",
    "package-path": "",
}

HELD_BY_VICTIM = 8  # maximum number of code objects that the victim keeps open at a time

PR_SET_PDEATHSIG = 1
ATTACKER_NICENESS = 15

T = TypeVar("T")


class Waiting(NamedTuple):
    """What kilnd is doing for its clients at one moment."""
    connections: int
    compiles: int
    size: int  # total bytes of the waiting requests
    held: int  # number of code objects that kilnd has closed, but a client keeps open

    def beyond(self, before: Waiting) -> list[str]:
        """Returns a message for each count that is higher than before the attack. The victim always
        has a few requests, which are allowed."""
        found = []
        if self.connections > before.connections + 1:
            found.append(f"{self.connections} connections, {before.connections} before")
        if self.compiles > before.compiles + 1:
            found.append(f"{self.compiles} waiting compiles, {before.compiles} before")
        if self.size > before.size + MIB:
            found.append(f"{self.size >> 20} MiB of waiting requests")
        if self.held > before.held + HELD_BY_VICTIM:
            found.append(f"{self.held} code objects that clients keep")
        return found


class Processors:
    """Measures how busy the processors are from now on, with everything that runs on this machine.
    """

    def __init__(self) -> None:
        self.begin = self._ticks()

    @staticmethod
    def _ticks() -> tuple[int, int]:
        """Returns the idle ticks and all ticks."""
        line = pathlib.Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
        ticks = [int(word) for word in line.split()[1:9]]
        return ticks[3] + ticks[4], sum(ticks)

    def busy(self) -> float:
        idle, whole = (end - begin for begin, end in zip(self.begin, self._ticks()))
        return 1.0 - idle / whole if whole else math.nan


def memory_limit(users: int) -> int:
    """Returns the limit of kilnd's memory: for the requests of |users| users, for objects, and for
    kilnd itself."""
    return min(users * QUEUE_PER_UID, QUEUE_BYTES) + HOT_LIMIT + KILND_ITSELF


def objects_limit(users: int) -> int:
    """Returns the limit of memory for code objects that |users| users have received and keep."""
    return min(users * HELD_PER_UID, HELD_BYTES) + HOT_LIMIT


def object_memory(pids: Iterable[int]) -> int:
    """Returns the bytes of all code objects that a process has open, mapped, or opened with O_PATH.
    Most of this memory is resident in no process, but is charged to kilnd's cgroup."""
    sizes: dict[int, int] = {}  # by inode
    for pid in pids:
        for directory in ("fd", "map_files"):
            sizes.update(_objects_in(pathlib.Path(f"/proc/{pid}/{directory}")))
    return sum(sizes.values())


def _objects_in(directory: pathlib.Path) -> dict[int, int]:
    sizes = {}
    for path in directory.iterdir():
        try:
            if os.readlink(path).startswith(OBJECT_FILE):
                seen = os.stat(path)
                sizes[seen.st_ino] = seen.st_blocks * 512
        except FileNotFoundError:  # the descriptor was closed meanwhile
            pass
    return sizes


def become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def run_as(uid: int, function: Callable[[], T]) -> T:
    """Returns the result of |function|, which runs in a process of that user."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        _answer(uid, function, write_end)
    os.close(write_end)
    with open(read_end, "rb") as stream:
        data = stream.read()
    os.waitpid(pid, 0)
    done, value = pickle.loads(data) if data else (False, RuntimeError("the process died"))
    if not done:
        raise value
    result: T = value
    return result


def _answer(uid: int, function: Callable[[], Any], write_end: int) -> NoReturn:
    try:
        become(uid)
        answer: tuple[bool, Any] = (True, function())
    except wire.Refused as refused:
        answer = (False, RuntimeError(str(refused)))
    except BaseException:  # pylint: disable=broad-except  # the parent reports it
        answer = (False, RuntimeError(traceback.format_exc()))
    with open(write_end, "wb") as stream:
        stream.write(pickle.dumps(answer))
    os._exit(0)


def start_as(uid: int, function: Callable[[], None]) -> int:
    """Starts a process of that user and returns its pid. Attackers get little processor time, so
    that the victim is delayed by kilnd, not by the scheduler."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if uid != VICTIM:
            give_way()
        become(uid)
        die_with_parent()
        function()
    except (wire.Closed, ConnectionError, BrokenPipeError):
        os._exit(3)  # kilnd rejected the connection, or has exited
    except BaseException:  # pylint: disable=broad-except
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def give_way() -> None:
    """Lowers the priority of this process and of its session. Linux gives each session the same
    share of processor time, whatever the nice values of its processes (sched(7))."""
    os.setsid()
    os.nice(ATTACKER_NICENESS)
    group = pathlib.Path("/proc/self/autogroup")
    if group.exists():
        group.write_text(str(ATTACKER_NICENESS), encoding="ascii")


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_process(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def wait_until(what: str, holds: Callable[[], bool], most_s: float = 30) -> None:
    end = time.monotonic() + most_s
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {most_s:.0f} s for {what}")
        time.sleep(0.02)


class Host:
    """kilnd with its directory. |programs| is the directory of a build's programs."""

    def __init__(self, programs: pathlib.Path, settings: dict[str, str], user: int = 0) -> None:
        self.programs, self.user = programs, user
        self.settings = {**SETTINGS, **settings}
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="kiln-attack-"))
        self.directory.chmod(0o711)
        self.cache = self.directory / "cache"
        self.socket = self.directory / "run" / "kilnd.sock"
        self.log = self.directory / "kilnd.log"
        self.process: subprocess.Popen[bytes] | None = None
        for name in ("home", "run", "pocl", "files"):
            (self.directory / name).mkdir()
            os.chown(self.directory / name, user, user)
        (self.directory / "run").chmod(0o711)
        (self.directory / "files").chmod(0o755)

    def environment(self) -> dict[str, str]:
        own = {"HOME": "home", "XDG_RUNTIME_DIR": "run", "XDG_CACHE_HOME": "home/cache",
               "XDG_STATE_HOME": "home/state", "XDG_CONFIG_HOME": "home/config",
               "POCL_CACHE_DIR": "pocl"}
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("KILN", "XDG_"))}
        return {**kept, **{k: str(self.directory / v) for k, v in own.items()},
                "KILN_SOCKET": str(self.socket)}

    def start(self) -> None:
        command = ["setpriv", "--pdeathsig", "KILL", str(self.programs / "kilnd"), "--socket",
                   str(self.socket),
                   "--cache-dir", str(self.cache),
                   "--state-dir", str(self.directory / "home" / "state"), "--log-format", "text"]
        for key, value in self.settings.items():
            command += [f"--{key}", value]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, env=self.environment(),
                                            # kilnd's unit has its own session, too
                                            start_new_session=True,
                                            user=self.user, group=self.user, extra_groups=[])
        wait_until("kilnd to answer", self._answers, START_MAX_S)
        self.socket.chmod(0o666)
        wait_until("compilers to start", self.compilers_are_idle, START_MAX_S)

    def _answers(self) -> bool:
        assert self.process
        if self.process.poll() is not None:
            raise RuntimeError(f"kilnd ended at once: {self.log.read_text(errors='replace')}")
        try:
            wire.Connection(str(self.socket)).close()
        except (FileNotFoundError, ConnectionError, wire.Closed):
            return False
        return True

    def compilers_are_idle(self) -> bool:
        workers = self.ask("status")["workers"]
        return bool(workers["idle"] == workers["total"])

    def waiting(self) -> Waiting:
        stats = self.ask("stats")
        return Waiting(stats["clients"], stats["queued"], stats["queued_bytes"],
                       stats["held_objects"])

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_MAX_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(STOP_MAX_S)
        shutil.rmtree(self.directory, ignore_errors=True)

    def connect(self, timeout_s: float = 120) -> wire.Connection:
        return wire.Connection(str(self.socket), timeout_s)

    def ask(self, kind: str, members: dict[str, Any] | None = None,
            timeout_s: float = 120) -> dict[str, Any]:
        connection = self.connect(timeout_s)
        try:
            return connection.ask(kind, members)
        finally:
            connection.close()

    def as_user(self, uid: int, function: Callable[[wire.Connection], T]) -> T:
        """Returns the result of |function|, which gets a connection of that user."""
        return run_as(uid, lambda: function(wire.Connection(str(self.socket))))

    def kilnctl(self, *words: str, timeout_s: float = 60) -> tuple[int, bytes]:
        """Returns the exit status and the output of a kilnctl command that runs as root."""
        done = subprocess.run([str(self.programs / "kilnctl"), *words], env=self.environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, timeout=timeout_s, check=False)
        return done.returncode, done.stdout

    @property
    def pid(self) -> int:
        assert self.process
        return self.process.pid

    def memory(self, name: str = "VmRSS") -> int:
        """Returns the value in bytes. VmHWM is the peak since forget_peak()."""
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) * 1024 for line in text.splitlines()
                    if line.startswith(name + ":"))

    def forget_peak(self) -> None:
        pathlib.Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="utf-8")

    def descendants(self, name: str) -> list[int]:
        """Returns the descendants of kilnd whose program's name contains |name|."""
        found, pending = [], [self.pid]
        while pending:
            below = children(pending.pop())
            pending += below
            found += [pid for pid in below if name in command_name(pid)]
        return found

    def file(self, name: str, content: bytes) -> pathlib.Path:
        """Writes a file that all users can read."""
        path = self.directory / "files" / name
        path.write_bytes(content)
        path.chmod(0o644)
        return path


def children(pid: int) -> list[int]:
    """Returns the children of a process, whichever of its threads started them."""
    found = []
    for thread in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in thread.read_text(encoding="utf-8").split()]
        except OSError:  # the process has ended
            pass
    return found


def command_name(pid: int) -> str:
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def toolchain_names(host: Host) -> list[str]:
    return [str(chain["name"]) for chain in host.ask("status")["toolchains"]]


def opencl_target(host: Host) -> str:
    """Returns the target of the host's own OpenCL device, or an empty text if there is none."""
    for chain in host.ask("toolchains")["toolchains"]:
        for target in chain["targets"]:
            if chain["name"] == "opencl" and target["works"]:
                return str(target["target"])
    return ""
