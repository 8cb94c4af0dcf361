# SPDX-License-Identifier: MIT
"""Attacks on time and memory. Two users attack, each with as many requests as they may have."""
from __future__ import annotations

import fcntl
import itertools
import mmap
import os
import pathlib
import select
import signal
import socket
import struct
import time
from typing import Iterable

import host as hosts
import material
import wire
from attack import Load, Stage

MIB = 1 << 20
REFUSED_PAUSE_S = 0.02  # pause before an attacker repeats a refused request
# After this time, an attack counts as being at full strength, even if kilnd has stopped reading its
# requests.
FULL_MAX_S = 3.0
GC_MAX_S = 10
LIST_MAX_S = 5
PUT_MAX_S = 5
PUTS = 8  # number of the victim's puts, each of which waits for the previous one
BOMB_SIZE = 64 * MIB  # size of the largest object that kilnd imports
DEVICE = material.DEVICE

# For each request: its message type, the members of its JSON, and the file that it sends.
Requests = tuple[tuple[str, dict[str, str], pathlib.Path], ...]


class Flood:
    """A connection that always has |depth| of |requests| in flight. Each request is a pair (type,
    body)."""

    def __init__(self, stage: Stage, requests: list[tuple[str, bytes]], depth: int) -> None:
        self.connection = wire.Connection(str(stage.host.socket), None)
        self.socket = self.connection.socket
        self.socket.setblocking(False)
        self.frames = [wire.frame(kind, 1 + i, body) for i, (kind, body) in enumerate(requests)]
        self.depth, self.sent, self.answered, self.refused = depth, 0, 0, 0
        self.frames_read = 0
        self.rest = memoryview(b"")  # unsent rest of the current frame

    def send(self) -> None:
        """Sends as much as the socket accepts."""
        try:
            while self.rest or self.sent - self.answered < self.depth:
                if not self.rest:
                    self.rest = memoryview(self.frames[self.sent % len(self.frames)])
                    self.sent += 1
                self.rest = self.rest[self.socket.send(self.rest):]
        except BlockingIOError:
            pass

    def receive(self) -> int:
        """Reads what has arrived. Returns how many requests were rejected."""
        frames, answers, errors = self.connection.skip_frames(0)
        self.frames_read += frames
        self.answered += answers
        self.refused += errors
        return errors

    def served(self, in_frames: bool) -> int:
        return (self.frames_read if in_frames else self.answered) - self.refused

    def is_full(self) -> bool:
        """Returns whether every request that may be in flight was sent once."""
        return self.sent >= self.depth and not self.rest


def import_as(stage: Stage, uids: Iterable[int], path: pathlib.Path) -> None:
    members = {"name": path.name, "database_id": DEVICE}
    for uid in uids:
        stage.host.as_user(uid, lambda c: c.ask("kernel_import", members, [path]))


def run_floods(stage: Stage, number: int, floods: list[Flood], in_frames: bool = False) -> None:
    """Keeps the requests in flight. With |in_frames|, each frame of an answer counts as a piece of
    work."""
    begin = time.monotonic()
    while True:
        for flood in floods:
            flood.send()
        sockets = [flood.socket for flood in floods]
        unsent = [flood.socket for flood in floods if flood.rest]
        can_read, _, _ = select.select(sockets, unsent, [], 1.0)
        errors = sum(flood.receive() for flood in floods if flood.socket in can_read)
        stage.count(number, sum(flood.served(in_frames) for flood in floods))
        if all(flood.is_full() for flood in floods) or time.monotonic() > begin + FULL_MAX_S:
            stage.ready[number] = 1
        if errors:
            time.sleep(REFUSED_PAUSE_S)


class Lookups(Load):
    """Keeps batches of 4,096 fetches by random key in flight."""
    name, finding = "lookups", "H1"
    processes = 2

    def assail(self, stage: Stage, number: int) -> None:
        depth = 32 if stage.options.short else 100
        bodies = [wire.batch_body(os.urandom(32) for _ in range(wire.BATCH_ITEMS_MAX))
                  for _ in range(depth)]
        run_floods(stage, number, [Flood(stage, [("batch", body) for body in bodies], depth)])

    def inspect(self, stage: Stage) -> list[str]:
        return self.first_come(stage)


class LongBatches(Load):
    """Keeps more batches of 4,096 sources with long options in flight than may wait."""
    name, finding = "long_batches", "H1"
    BODIES, DEPTH = 6, 100
    OPTIONS_SIZE = 1900  # with this size, 4,096 items just fit a frame

    def options(self, body: int, item: int) -> str:
        """Returns options in the order that takes the longest to sort, different for each item."""
        text = " ".join(f"-DM{body}_{i}={(item * 7 + i) % 1000}" for i in range(130, 0, -1))
        return text[:text.rindex(" ", 0, self.OPTIONS_SIZE)]

    def body(self, stage: Stage, number: int) -> bytes:
        trivial = stage.sources.trivial(number)
        items = [wire.source_body(trivial._replace(options=self.options(number, i)),
                                  wire.FETCH_NO_OBJECT) for i in range(wire.BATCH_ITEMS_MAX)]
        return struct.pack("<I", len(items)) + \
            wire.block(b"".join(b"\1" + wire.block(item) for item in items))

    def assail(self, stage: Stage, number: int) -> None:
        bodies = [self.body(stage, self.BODIES * number + i) for i in range(self.BODIES)]
        run_floods(stage, number,
                   [Flood(stage, [("batch", body) for body in bodies], self.DEPTH)])


class SlowReader(Load):
    """Sends batches of 4,096 fetches on many connections, and reads no answer."""
    name, finding = "unread", "H1"
    CONNECTIONS = 16

    def assail(self, stage: Stage, number: int) -> None:
        body = wire.batch_body(os.urandom(32) for _ in range(wire.BATCH_ITEMS_MAX))
        connections = [wire.Connection(str(stage.host.socket), None)
                       for _ in range(self.CONNECTIONS)]
        for connection in connections:
            connection.socket.setblocking(False)
        data = wire.frame("batch", 7, body)
        pending = [b""] * len(connections)
        rounds = 0
        while True:
            for i, connection in enumerate(connections):
                pending[i] = pending[i] or data
                try:
                    pending[i] = pending[i][connection.socket.send(pending[i]):]
                except BlockingIOError:
                    continue
                except OSError:  # kilnd closed the connection
                    connections[i] = wire.Connection(str(stage.host.socket), None)
                    connections[i].socket.setblocking(False)
                    pending[i] = b""
            rounds += 1
            stage.ready[number] = rounds > 20
            time.sleep(0.005)


class Churn(Load):
    """Connects and closes the connection at once, in a loop; half of the processes say hello in
    between."""
    name, finding = "churn", "suspected"
    processes = 4  # one of two processes says hello

    def assail(self, stage: Stage, number: int) -> None:
        path, begin = str(stage.host.socket), time.monotonic()
        hello = wire.hello() if number % 2 else b""
        while True:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
                one.setblocking(False)
                try:
                    one.connect(path)
                    one.send(hello)
                # kilnd's backlog is full, so the attack is at full strength
                except BlockingIOError:
                    stage.ready[number] = 1
            stage.ready[number] = stage.ready[number] or time.monotonic() > begin + FULL_MAX_S


class Nearest(Load):
    """Asks for the nearest records of 4,096 problems at a time, among 20,000 records of its own."""
    name, finding = "nearest", "H3"
    processes = 2
    RECORDS = 20_000
    CONNECTIONS, DEPTH = 16, 20

    def prepare(self, stage: Stage) -> None:
        path = stage.host.file("gfx906_60.HIP.fdb.txt", material.find_db(self.RECORDS))
        for uid in self.uids:
            stage.host.as_user(uid, lambda c: c.ask("tuning_import",
                                                    {"name": path.name, "tier": "user"}, [path]))

    def assail(self, stage: Stage, number: int) -> None:
        problems = [wire.problem(101 + i % 64, size=300 + i // 64)
                    for i in range(wire.BATCH_ITEMS_MAX)]
        body = wire.get_body(problems, DEVICE, wire.TUNING_NEAREST)
        run_floods(stage, number, [Flood(stage, [("tuning_get", body)], self.DEPTH)
                                   for _ in range(self.CONNECTIONS)], in_frames=True)

    def inspect(self, stage: Stage) -> list[str]:
        return self.first_come(stage)


class BombImport(Load):
    """Imports caches of a few bytes, whose rows unpack to 64 MiB each."""
    name, finding = "bomb_import", "H2"
    processes = 2  # as many uploads as a user may have at a time
    ROWS = 6
    # this progress report means that kiln-transfer is done and kilnd unpacks
    UNPACKING = b'"importing"'
    ready_max_s = 60.0

    def prepare(self, stage: Stage) -> None:
        bomb = material.make_bomb(BOMB_SIZE)
        self.path = material.write_cache(stage.host.directory / "files" / "bomb.ukdb",
                                         material.bomb_rows(bomb, self.ROWS))

    def assail(self, stage: Stage, number: int) -> None:
        connection = wire.Connection(str(stage.host.socket), None)
        while True:
            body = f'{{"name":"bomb.ukdb","database_id":"{DEVICE}"}}'.encode()
            with self.path.open("rb") as opened:
                connection.send("kernel_import", body, [opened.fileno()])
            self.follow(stage, number, connection)

    @staticmethod
    def follow(stage: Stage, number: int, connection: wire.Connection) -> None:
        """Waits until kilnd itself unpacks: then the attack is at its full strength."""
        while True:
            got = connection.receive()
            if BombImport.UNPACKING in got.body:
                stage.ready[number] = 1
            if not got.flags & wire.MORE:
                if got.type == wire.TYPES["error"]:
                    time.sleep(REFUSED_PAUSE_S)
                return

    def inspect(self, stage: Stage) -> list[str]:
        bound_s = stage.bound_s(GC_MAX_S)
        try:
            stage.host.ask("gc", {"dry_run": True, "to_bytes": 1 << 40}, timeout_s=bound_s)
        except (TimeoutError, OSError):
            return [f"an administrator's gc was not answered in {bound_s} s"]
        return []


class LargeCopies(Load):
    """Imports caches that kilnd copies for a long time, and disconnects before kilnd reads them."""
    name, finding = "large_copies", "suspected"
    processes = 2  # as many uploads as a user may have at a time
    SIZE = 256 * MIB
    ready_max_s = 60.0

    def prepare(self, stage: Stage) -> None:
        count = 2 if stage.options.short else self.SIZE // (16 * MIB)
        self.path = material.write_cache(stage.host.directory / "files" / "large.ukdb",
                                         material.random_rows(count, 16 * MIB, "large"))

    def assail(self, stage: Stage, number: int) -> None:
        body = f'{{"name":"large.ukdb","database_id":"{DEVICE}"}}'.encode()
        connection = wire.Connection(str(stage.host.socket), None)
        while True:
            with self.path.open("rb") as opened:
                request = connection.send("kernel_import", body, [opened.fileno()])
            while True:
                got = connection.receive()
                if b'"importing"' in got.body:
                    connection.send("cancel", struct.pack("<Q", request))
                if not got.flags & wire.MORE:
                    break
            stage.ready[number] = 1
            time.sleep(REFUSED_PAUSE_S)


class SlowTransfers(Load):
    """Imports caches with thousands of rows, each of which takes seconds to check."""
    name, finding = "slow_transfers", "suspected"
    ROWS = 4096

    def prepare(self, stage: Stage) -> None:
        bomb = material.make_bomb(BOMB_SIZE)
        self.path = material.write_cache(stage.host.directory / "files" / "slow.ukdb",
                                         material.bomb_rows(bomb, self.ROWS))

    def assail(self, stage: Stage, number: int) -> None:
        connections = [wire.Connection(str(stage.host.socket), None) for _ in range(2)]
        body = f'{{"name":"slow.ukdb","database_id":"{DEVICE}"}}'.encode()
        for connection in connections:
            with self.path.open("rb") as opened:
                connection.send("kernel_import", body, [opened.fileno()])
        while True:
            connections[0].receive()
            stage.ready[number] = 1


class EndlessSources(Load):
    """Sends, again and again, eight sources that no compiler can finish."""
    name, finding = "endless_sources", "H4"
    SOURCES = 8

    def assail(self, stage: Stage, number: int) -> None:
        base = int.from_bytes(os.urandom(3), "little") * 64
        requests = [("fetch_source", wire.source_body(stage.sources.endless(base + i)))
                    for i in range(self.SOURCES)]
        run_floods(stage, number, [Flood(stage, requests, self.SOURCES)])


class Scans(Load):
    """Makes kilnd search a store of 100,000 kernels in every way that a user may request."""
    name, finding = "scans", "suspected"
    ROWS = 100_000
    DEPTH = 4  # as many administrative requests as a user may have at a time
    REQUESTS = (("kernel_list", b'{"program":"none"}'), ("kernel_list", b'{"count":1000}'),
                ("accounting", b'{"by":"program"}'), ("history", b'{"slowest":100}'),
                ("why_miss", b'{"name":"none.o","args":"","database_id":"gfx906_60"}'),
                ("clear", b'{"own":true,"name":"none","dry_run":true}'),
                ("clear", b'{"own":true,"name":"none"}'), ("kernel_show", b'{"key":"0"}'),
                ("kernel_remove", b'{"key":"0"}'), ("metrics", b""), ("health", b""))

    def prepare(self, stage: Stage) -> None:
        rows = material.random_rows(2000 if stage.options.short else self.ROWS, 64, "scanned")
        path = material.write_cache(stage.host.directory / "files" / "many.ukdb", rows)
        import_as(stage, self.uids[:1], path)

    def assail(self, stage: Stage, number: int) -> None:
        run_floods(stage, number, [Flood(stage, list(self.REQUESTS), self.DEPTH)])


class Exports(Load):
    """Imports a cache, exports it and removes it, without a pause. Keeps no file."""
    name, finding = "exports", "suspected"
    processes = 2  # as many uploads as a user may have at a time
    ROWS = 2000

    def prepare(self, stage: Stage) -> None:
        self.path = material.write_cache(stage.host.directory / "files" / "export.ukdb",
                                         material.random_rows(self.ROWS, 4096, "exported"))

    def assail(self, stage: Stage, number: int) -> None:
        connection = wire.Connection(str(stage.host.socket), None)
        members = {"name": self.path.name, "database_id": DEVICE}
        while True:
            try:
                connection.ask("kernel_import", members, [self.path])
                stage.ready[number] = 1
                connection.ask("kernel_export", {"database_id": DEVICE})
                connection.ask("clear", {"own": True})
            except wire.Refused:
                time.sleep(REFUSED_PAUSE_S)


class LargeExports(Load):
    """Exports large kernels that bzip2 compresses slowly, and disconnects each time."""
    name, finding = "large_exports", "suspected"
    processes = 4  # as many administrative requests as a user may have at a time
    ROWS = 3
    SIZE = 16 * MIB
    # number of bytes after which the content repeats; bzip2's sort is slowest if long parts are
    # equal
    PERIOD = 100_000

    def prepare(self, stage: Stage) -> None:
        seed = os.urandom(self.PERIOD)
        rows = [material.packed_row(f"slow{i}.o", (seed + bytes([i])) * (self.SIZE // self.PERIOD))
                for i in range(self.ROWS)]
        path = material.write_cache(stage.host.directory / "files" / "slow.ukdb", rows)
        import_as(stage, self.uids, path)

    def assail(self, stage: Stage, number: int) -> None:
        while True:
            connection = wire.Connection(str(stage.host.socket), None)
            connection.send("kernel_export", f'{{"database_id":"{DEVICE}"}}'.encode())
            stage.ready[number] = 1
            time.sleep(0.2)
            connection.socket.close()

    def inspect(self, stage: Stage) -> list[str]:
        bound_s = stage.bound_s(LIST_MAX_S)

        def waits(connection: wire.Connection) -> bool:
            connection.socket.settimeout(bound_s)
            try:
                connection.ask("kernel_list", {"count": 10})
            except TimeoutError:
                return True
            return False
        return [f"a kernel_list of the victim was not answered in {bound_s} s"] \
            if stage.host.as_user(hosts.VICTIM, waits) else []


class Clears(Load):
    """Removes many kernels of its own, and imports them again."""
    name, finding = "clears", "suspected"
    processes = 2  # as many uploads as a user may have at a time
    ROWS = 20_000

    def prepare(self, stage: Stage) -> None:
        rows = material.random_rows(2000 if stage.options.short else self.ROWS, 64, "cleared")
        self.path = material.write_cache(stage.host.directory / "files" / "cleared.ukdb", rows)
        import_as(stage, self.uids, self.path)

    def assail(self, stage: Stage, number: int) -> None:
        connection = wire.Connection(str(stage.host.socket), None)
        members = {"name": self.path.name, "database_id": DEVICE}
        while True:
            try:
                stage.ready[number] = 1
                connection.ask("clear", {"own": True})
                connection.ask("kernel_import", members, [self.path])
            except wire.Refused:
                time.sleep(REFUSED_PAUSE_S)


class Builds(Load):
    """Builds packages of 20,000 problems."""
    name, finding = "builds", "suspected"
    PROBLEMS = 20_000

    def assail(self, stage: Stage, number: int) -> None:
        connection = wire.Connection(str(stage.host.socket), None)
        count = 2000 if stage.options.short else self.PROBLEMS
        problems = b"".join(wire.problem(1 + i % 100, size=8 + i // 100) for i in range(count))
        fd = os.memfd_create("problems", os.MFD_ALLOW_SEALING)
        os.write(fd, problems)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK |
                    fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
        members = f'{{"target":"{stage.sources.target}","format":"kiln"}}'.encode()
        while True:
            connection.send("package_build", members, [fd])
            while connection.receive().flags & wire.MORE:
                stage.ready[number] = 1
            time.sleep(REFUSED_PAUSE_S)


class Puts(Load):
    """Records measurements of different problems, as many at once as a user may."""
    name, finding = "puts", "H7"
    DEPTH = 64

    def assail(self, stage: Stage, number: int) -> None:
        entry = wire.Entry("ConvDirectNaiveConvFwd", 1.5, 9)
        requests = [("tuning_put", wire.put_body(wire.problem(1 + i % 200, size=8 + i // 200),
                                                 DEVICE, entry)) for i in range(20_000)]
        run_floods(stage, number, [Flood(stage, requests, self.DEPTH)])


class TuningFiles(Load):
    """Imports, merges and compares tuning files: one with good records, one with only bad lines,
    and a PerfDb of problems without a solver."""
    name, finding = "tuning_files", "suspected"
    RECORDS = 20_000
    BAD_LINES = 8 << 20
    PROBLEMS = 200_000

    def prepare(self, stage: Stage) -> None:
        self.good = stage.host.file("gfx906_60.HIP.fdb.txt", material.find_db(self.RECORDS))
        self.bad = stage.host.file("gfx90878.HIP.fdb.txt", b"x\n" * self.BAD_LINES)
        self.perf = material.write_perf_db(stage.host.directory / "files" / "gfx906_60.db",
                                           self.PROBLEMS)

    def requests(self) -> Requests:
        diff = {"kind": "find", "database_id": DEVICE, "a_name": self.good.name, "b_tier": "user"}
        return (("tuning_import", {"name": self.bad.name, "tier": "user"}, self.bad),
                ("tuning_merge", {"name": self.good.name, "tier": "user"}, self.good),
                ("tuning_import", {"name": self.perf.name, "tier": "user"}, self.perf),
                ("tuning_diff", diff, self.good))

    def assail(self, stage: Stage, number: int) -> None:
        connection = wire.Connection(str(stage.host.socket), None)
        while True:
            for kind, members, path in self.requests():
                try:
                    stage.ready[number] = 1
                    connection.ask(kind, members, [path])
                except wire.Refused:
                    time.sleep(REFUSED_PAUSE_S)

    def inspect(self, stage: Stage) -> list[str]:
        body = wire.put_body(wire.problem(64), DEVICE,
                             wire.Entry("ConvDirectNaiveConvFwd", 1.5, 9))
        bound_s = stage.bound_s(PUT_MAX_S)

        def waits(connection: wire.Connection) -> bool:
            connection.socket.settimeout(bound_s)
            connection.send("tuning_put", body)
            try:
                connection.receive()
            except TimeoutError:
                return True
            return False
        return [f"a tuning_put of the victim was not answered in {bound_s} s"] \
            if any(stage.host.as_user(hosts.VICTIM, waits) for _ in range(PUTS)) else []


class PerfFiles(TuningFiles):
    """Imports and compares PerfDbs of a million problems without a solver. These need far more
    memory than the size of their files."""
    name = "perf_files"
    processes = 2  # as many uploads as a user may have at a time
    PROBLEMS = 1_000_000

    def prepare(self, stage: Stage) -> None:
        problems = self.PROBLEMS // 4 if stage.options.short else self.PROBLEMS
        self.perf = material.write_perf_db(stage.host.directory / "files" / "gfx906_60.db",
                                           problems)

    def requests(self) -> Requests:
        diff = {"kind": "perf", "database_id": DEVICE, "a_name": self.perf.name, "b_tier": "user"}
        return (("tuning_import", {"name": self.perf.name, "tier": "user"}, self.perf),
                ("tuning_diff", diff, self.perf))


class TuningReads(Load):
    """Repeats a request that makes kilnd read as many records as a user may have."""
    RECORDS = 90_000
    REQUEST: tuple[str, bytes]
    DEPTH = 4  # as many administrative requests as a user may have at a time

    def prepare(self, stage: Stage) -> None:
        count = 5000 if stage.options.short else self.RECORDS
        path = stage.host.file("gfx906_60.HIP.fdb.txt", material.find_db(count))
        for uid in self.uids:
            stage.host.as_user(uid, lambda c: c.ask("tuning_import",
                                                    {"name": path.name, "tier": "user"}, [path]))

    def assail(self, stage: Stage, number: int) -> None:
        run_floods(stage, number, [Flood(stage, [self.REQUEST], self.DEPTH)])


class TuningVerify(TuningReads):
    """Makes kilnd verify 90,000 records of its own, as often at once as a user may."""
    name, finding = "tuning_verify", "suspected"
    REQUEST = ("tuning_verify", b'{"driver":"another"}')


class TuningExports(TuningReads):
    """Makes kilnd export 90,000 records of its own, as often at once as a user may."""
    name, finding = "tuning_exports", "suspected"
    REQUEST = ("tuning_export", b'{"tier":"user"}')


class ParallelExports(Load):
    """Exports the same large kernels as often at once as a user may, and keeps the files open."""
    name, finding = "parallel_exports", "suspected"
    ROWS, SIZE = 8, 16 * MIB
    DEPTH = 4  # as many administrative requests as a user may have at a time

    def prepare(self, stage: Stage) -> None:
        rows = material.random_rows(2 if stage.options.short else self.ROWS, self.SIZE, "parallel")
        import_as(stage, self.uids,
                  material.write_cache(stage.host.directory / "files" / "parallel.ukdb", rows))

    def assail(self, stage: Stage, number: int) -> None:
        body = f'{{"database_id":"{DEVICE}"}}'.encode()
        connections = [wire.Connection(str(stage.host.socket), None) for _ in range(self.DEPTH)]
        for connection in connections:
            connection.send("kernel_export", body)
        kept: list[wire.Frame] = []
        while True:
            stage.ready[number] = 1
            ready, _, _ = select.select([one.socket for one in connections], [], [])
            for connection in connections:
                if connection.socket in ready:
                    self._take(connection, kept)
                    connection.send("kernel_export", body)

    def _take(self, connection: wire.Connection, kept: list[wire.Frame]) -> None:
        """Takes an answer on each connection, and keeps its files open."""
        try:
            kept.append(connection.answer())
        except wire.Refused:
            time.sleep(REFUSED_PAUSE_S)
        if len(kept) > self.DEPTH:
            kept.pop(0).close()


class TinyRows(Load):
    """Imports caches of two million tiny rows, none of which is a kernel."""
    name, finding = "tiny_rows", "suspected"
    processes = 2  # as many uploads as a user may have at a time
    ROWS = 2_000_000
    ready_max_s = 60.0

    def prepare(self, stage: Stage) -> None:
        self.path = material.write_tiny_rows(stage.host.directory / "files" / "tiny.ukdb",
                                             self.ROWS // (20 if stage.options.short else 1))

    def assail(self, stage: Stage, number: int) -> None:
        connection = wire.Connection(str(stage.host.socket), None)
        body = f'{{"name":"tiny.ukdb","database_id":"{DEVICE}"}}'.encode()
        while True:
            with self.path.open("rb") as opened:
                connection.send("kernel_import", body, [opened.fileno()])
            BombImport.follow(stage, number, connection)


class DamagedCaches(TinyRows):
    """Imports damaged caches of a million rows, which kilnd rejects after they were copied."""
    name = "damaged_caches"
    ROWS = 1_000_000
    PAGE = 4096

    def prepare(self, stage: Stage) -> None:
        super().prepare(stage)
        size = self.path.stat().st_size
        with self.path.open("r+b") as cache:
            for at in range(self.PAGE, size, 16 * self.PAGE):
                cache.seek(at)
                cache.write(os.urandom(64))

    def assail(self, stage: Stage, number: int) -> None:
        # If kilnd refuses all imports before it unpacks, the inherited assail never sets |ready|.
        stage.ready[number] = 1
        super().assail(stage, number)


class KeptKernels(Load):
    """Fetches kernels that take more than kilnd's hot set, repeatedly, and keeps their files:
    open, mapped, or opened as a path."""
    name, finding = "kept_kernels", "suspected"
    ROWS, SIZE = 6, 16 * MIB
    KEPT_MAX = 512 * MIB  # for each user; the attack counts as being at full strength at this size

    def prepare(self, stage: Stage) -> None:
        rows = material.random_rows(self.ROWS, self.SIZE, "kept")
        import_as(stage, self.uids,
                  material.write_cache(stage.host.directory / "files" / "kept.ukdb", rows))

    def assail(self, stage: Stage, number: int) -> None:
        connection = wire.Connection(str(stage.host.socket), None)
        kept: list[Kept] = []
        for i in itertools.count():
            if len(kept) * self.SIZE >= self.KEPT_MAX:
                stage.ready[number] = 1
                signal.pause()
            connection.send("fetch_name", wire.name_body(DEVICE, f"kept{i % self.ROWS}.o", ""))
            got = connection.answer()
            kept += [keep(fd, i) for fd in got.fds]
            if wire.read_results(got.body)[0].code == wire.BUSY:
                stage.ready[number] = 1
                time.sleep(REFUSED_PAUSE_S)


Kept = int | mmap.mmap


def keep(fd: int, i: int) -> Kept:
    """Keeps the memory of a file in one of three ways."""
    if i % 3 == 0:
        return fd
    kept: Kept = os.open(f"/proc/self/fd/{fd}", os.O_PATH) if i % 3 == 1 else \
        mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ)
    os.close(fd)
    return kept


class LargeResults(Load):
    """Sends results of compiles that cannot be compressed and have the maximum size."""
    name, finding = "large_results", "suspected"
    SIZE = 64 * MIB
    DEPTH = 3  # kilnd would refuse further requests

    def assail(self, stage: Stage, number: int) -> None:
        connection = wire.Connection(str(stage.host.socket), None)
        content = os.urandom(4 * MIB if stage.options.short else self.SIZE)
        texts = b"".join(map(wire.block, ("gfx90a", "attack", "k.cpp", "")))
        for i in itertools.count():
            key = os.urandom(32)
            with open(os.memfd_create("result"), "r+b", buffering=0) as result:
                result.write(key + content[len(key):])
                connection.send("compile_end", key + struct.pack("<Q", 1) + texts,
                                [result.fileno()])
            if i < self.DEPTH:
                continue
            stage.ready[number] = 1
            try:
                connection.answer()
            except wire.Refused:
                time.sleep(REFUSED_PAUSE_S)


class Sources(Load):
    """Queues as many trivial compiles as a user may."""
    name, finding = "queue", "H1"
    CONNECTIONS = 4

    def assail(self, stage: Stage, number: int) -> None:
        base = int.from_bytes(os.urandom(3), "little") * 4096
        count = 200 if stage.options.short else wire.IN_FLIGHT_MAX
        items = [wire.source_body(stage.sources.trivial(base + i), wire.FETCH_NO_OBJECT)
                 for i in range(4 * count)]
        bodies = [struct.pack("<I", count) + wire.block(
            b"".join(b"\1" + wire.block(item) for item in items[i * count:(i + 1) * count]))
            for i in range(self.CONNECTIONS)]
        run_floods(stage, number,
                   [Flood(stage, [("batch", body) for body in bodies], self.CONNECTIONS)])


ATTACKS = (Lookups, LongBatches, SlowReader, Churn, BombImport, LargeCopies, Nearest,
           EndlessSources, SlowTransfers, Scans, Exports, LargeExports, Clears, Builds, Puts,
           TuningFiles, PerfFiles, TuningVerify, TuningExports, ParallelExports, TinyRows,
           DamagedCaches, KeptKernels, LargeResults, Sources)
