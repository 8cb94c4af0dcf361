# SPDX-License-Identifier: MIT
"""A user who works while others attack. Each operation has a process, which repeats it."""
from __future__ import annotations

import functools
import mmap
import os
import pathlib
import socket
import struct
import time
from typing import Callable, NamedTuple

import host as hosts
import material
import wire

DISK_KERNELS = 64
KERNEL_SIZE = 20000
SAMPLES_MAX = 200_000
CLOSED = 255  # result of an operation whose connection was closed, in place of an error code
# number of samples; start time of the running operation, or 0 if none runs
HEADER = struct.Struct("<Qd")
SAMPLE = struct.Struct("<ddQ")  # start time, duration in seconds, error code
RETRY_S = 0.1
CONNECT_MAX_S = 60
MEASURED = wire.Entry("ConvDirectNaiveConvFwd", 1.5, 9)

Work = Callable[[], int]


class Operation(NamedTuple):
    name: str
    interval_s: float
    expected: int  # expected code


OPERATIONS = (
    Operation("ping", 0.01, wire.OK),
    Operation("warm", 0.01, wire.OK),
    Operation("miss", 0.01, wire.NOT_FOUND),
    Operation("disk", 0.02, wire.OK),
    Operation("import", 0.5, wire.OK),
    Operation("compile", 1.0, wire.OK),
    Operation("stats", 0.05, wire.OK),
    Operation("put", 0.1, wire.OK),
    Operation("tuning", 0.02, wire.OK),
    Operation("connect", 0.05, wire.OK),
    Operation("echo", 0.01, wire.OK),
)
COMPILE = "compile"
# an operation without kilnd, which shows how long the scheduler makes the victim wait
ECHO = "echo"
ECHO_SIZE = 64
TITLES = {operation.name: operation.name for operation in OPERATIONS} | {
    "warm": "warm fetch", "miss": "fetch of an absent key", "disk": "cold fetch",
    "put": "tuning_put", "tuning": "tuning_get", "connect": "new connection",
    "echo": "echo without kilnd"}


class Sample(NamedTuple):
    start: float
    seconds: float
    code: int


class Record:
    """Samples of one operation, in memory that the victim's process shares with the parent."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, HEADER.size + SAMPLE.size * SAMPLES_MAX)

    def begin(self, start: float) -> None:
        count, _ = HEADER.unpack_from(self.memory)
        HEADER.pack_into(self.memory, 0, count, start)

    def end(self, code: int) -> None:
        count, start = HEADER.unpack_from(self.memory)
        if count < SAMPLES_MAX:
            SAMPLE.pack_into(self.memory, HEADER.size + SAMPLE.size * count, start,
                             time.monotonic() - start, code)
        HEADER.pack_into(self.memory, 0, min(count + 1, SAMPLES_MAX), 0.0)

    def running_since(self) -> float:
        """Returns the start of the running operation, or 0.0 if none is running."""
        start: float = HEADER.unpack_from(self.memory)[1]
        return start

    def latest_start(self) -> float:
        """Returns the start of the running operation. If none is running, returns the start of the
        last operation, or 0.0 if there was none."""
        count, running = HEADER.unpack_from(self.memory)
        if running or not count:
            return float(running)
        return Sample(*SAMPLE.unpack_from(self.memory,
                                          HEADER.size + SAMPLE.size * (count - 1))).start

    def samples(self) -> list[Sample]:
        """Returns the samples, including the running operation as if it ended now."""
        count, running = HEADER.unpack_from(self.memory)
        found = [Sample(*SAMPLE.unpack_from(self.memory, HEADER.size + SAMPLE.size * i))
                 for i in range(count)]
        if running:
            found.append(Sample(running, time.monotonic() - running, -1))
        return found


def start_echo() -> socket.socket:
    """Starts a process that sends back what it receives. The process leads a session, as kilnd
    does. Returns the other end of the process's socket."""
    near, far = socket.socketpair()
    if os.fork() == 0:
        hosts.die_with_parent()
        os.setsid()
        near.close()
        while data := far.recv(ECHO_SIZE):
            far.send(data)
        os._exit(0)
    far.close()
    return near


class Victim:
    def __init__(self, host: hosts.Host, sources: material.Sources) -> None:
        self.host, self.sources = host, sources
        self.records = {operation.name: Record() for operation in OPERATIONS}
        self.pids: list[int] = []
        self.keys: list[bytes] = []
        self.import_path = pathlib.Path()

    def prepare(self) -> None:
        """Imports the kernels that the victim fetches later."""
        files = self.host.directory / "files"
        rows = material.random_rows(DISK_KERNELS, KERNEL_SIZE, "victim")
        store = material.write_cache(files / "store.ukdb", rows)
        small = material.random_rows(4, KERNEL_SIZE, "again")
        self.import_path = material.write_cache(files / "small.ukdb", small)
        self.keys = self.host.as_user(hosts.VICTIM, lambda c: self._import(c, store))

    @staticmethod
    def _import(connection: wire.Connection, path: pathlib.Path) -> list[bytes]:
        connection.ask("kernel_import", {"name": path.name, "database_id": material.DEVICE}, [path])
        keys = [connection.fetch_name(material.DEVICE, f"victim{i}.o", "").key
                for i in range(DISK_KERNELS)]
        return keys

    def _work(self, name: str, connection: wire.Connection) -> Work:
        state = {"turn": 0}

        def turn() -> int:
            state["turn"] += 1
            return state["turn"]

        def ping() -> int:
            connection.ping()
            return wire.OK

        def take_file() -> int:
            connection.ask("kernel_import", {"name": "again.ukdb", "database_id": material.DEVICE},
                           [self.import_path])
            return wire.OK

        def stats() -> int:
            connection.ask("stats")
            return wire.OK

        def put() -> int:
            connection.send("tuning_put", wire.put_body(wire.problem(1 + turn() % 50),
                                                        material.DEVICE, MEASURED))
            connection.answer().close()
            return wire.OK

        def look_up() -> int:
            connection.send("tuning_get", wire.get_body([wire.problem(1)], material.DEVICE))
            connection.answer().close()
            return wire.OK

        def connect() -> int:
            new = wire.Connection(str(self.host.socket), CONNECT_MAX_S)
            new.ping()
            new.close()
            return wire.OK

        near = start_echo() if name == ECHO else None

        def echo() -> int:
            assert near
            near.send(bytes(ECHO_SIZE))
            return wire.OK if len(near.recv(ECHO_SIZE)) == ECHO_SIZE else CLOSED

        number = int.from_bytes(os.urandom(3), "little") * 64
        works: dict[str, Work] = {
            "ping": ping,
            "warm": lambda: connection.fetch(self.keys[0]).code,
            "miss": lambda: connection.fetch(os.urandom(32)).code,
            "disk": lambda: connection.fetch(self.keys[1 + turn() % (DISK_KERNELS - 1)]).code,
            "import": take_file,
            "compile": lambda: connection.fetch_source(self.sources.trivial(number + turn())).code,
            "stats": stats,
            "put": put,
            "tuning": look_up,
            "connect": connect,
            "echo": echo,
        }
        return works[name]

    def _repeat(self, operation: Operation) -> None:
        record = self.records[operation.name]
        work: Work | None = None
        while True:
            start = time.monotonic()
            record.begin(start)
            try:
                if not work:
                    work = self._work(operation.name,
                                      wire.Connection(str(self.host.socket), None))
                code = work()
            except wire.Refused as refused:
                code = refused.code
            except (wire.Closed, OSError):
                code, work = CLOSED, None
                time.sleep(RETRY_S)
            record.end(code)
            time.sleep(max(0.0, start + operation.interval_s - time.monotonic()))

    def start(self) -> None:
        for operation in OPERATIONS:
            self.pids.append(hosts.start_as(hosts.VICTIM,
                                            functools.partial(self._repeat, operation)))

    def stop(self) -> None:
        for pid in self.pids:
            hosts.end_process(pid)
        self.pids.clear()

    def are_answered(self, since: float) -> bool:
        """Returns whether every operation that began before |since| has ended."""
        running = [record.running_since() for record in self.records.values()]
        return all(start == 0.0 or start >= since for start in running)

    def has_begun(self, since: float) -> bool:
        """Returns whether every operation has begun once more after |since|."""
        return all(record.latest_start() >= since for record in self.records.values())
