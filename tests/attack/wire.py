# SPDX-License-Identifier: MIT
"""A raw client of kilnd: it sends exactly the bytes that an attack chooses (docs/protocol.md).

It shares no code with libkiln, so that the library's checks do not limit an attack.
"""
from __future__ import annotations

import array
import json
import os
import pathlib
import re
import select
import socket
import struct
from typing import Any, Iterable, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = struct.Struct("<4sHHQIHH")
MORE = 1  # FRAME_MORE
DESCRIPTORS_MAX = 253
READ_SIZE = 1 << 20
BATCH_ITEMS_MAX = 4096
IN_FLIGHT_MAX = 1024

# Values of the error codes in common/base/err_codes.def that the attacks use.
OK, NOT_FOUND, INVALID, DENIED, FULL, BUSY, CORRUPT, UNAVAILABLE = range(8)
COMPILE_FAILED = 13

TUNING_NEAREST = 1
FETCH_NO_OBJECT = 1


def _numbers() -> dict[str, int]:
    """Returns the message types of common/protocol/messages.def, by name."""
    text = (ROOT / "common" / "protocol" / "messages.def").read_text(encoding="utf-8")
    found = re.findall(r"^KILN_(?:REQUEST|REPLY)\((\w+),\s*(\d+)", text, re.M)
    return {name: int(number) for name, number in found}


TYPES = _numbers()


class Closed(Exception):
    """Raised when kilnd has closed the connection."""


class Frame(NamedTuple):
    type: int
    id: int
    flags: int
    body: bytes
    fds: list[int]  # owned by the caller

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)


class Refused(Exception):
    def __init__(self, code: int, text: str, log: str = "") -> None:
        super().__init__(f"code {code}: {text}")
        self.code, self.text, self.log = code, text, log


# ---- bodies ----

def block(data: bytes | str) -> bytes:
    """Returns a BYTES field."""
    raw = data.encode() if isinstance(data, str) else data
    return struct.pack("<I", len(raw)) + raw


def take_block(data: bytes, at: int) -> tuple[bytes, int]:
    size = struct.unpack_from("<I", data, at)[0]
    return data[at + 4:at + 4 + size], at + 4 + size


def frame(kind: str, request: int, body: bytes = b"", fds: int = 0) -> bytes:
    return HEADER.pack(b"KILN", 1, TYPES[kind], request, len(body), fds, 0) + body


def hello() -> bytes:
    return frame("hello", 1, struct.pack("<HHQ", 1, 1, 0) + block("attack"))


def fetch_body(key: bytes) -> bytes:
    return key + struct.pack("<I", 0)


def batch_body(keys: Iterable[bytes]) -> bytes:
    """Returns the body of a batch of fetches by key."""
    items = [b"\0" + block(fetch_body(key)) for key in keys]
    return struct.pack("<I", len(items)) + block(b"".join(items))


class Source(NamedTuple):
    target: str
    text: str
    program: str
    options: str = ""
    toolchain: str = ""


def source_body(source: Source, flags: int = 0) -> bytes:
    parts = (source.toolchain, source.target, source.program, source.options, source.text)
    return struct.pack("<BBI", 0, flags, 0) + b"".join(map(block, parts)) + \
        struct.pack("<I", 0) + block(b"")


def name_body(database_id: str, name: str, args: str) -> bytes:
    return struct.pack("<I", 0) + block(database_id) + block(name) + block(args)


def problem(n: int, c: int = 64, k: int = 64, size: int = 56) -> bytes:
    """Returns a forward convolution in fp32, NCHW, 3x3, encoded as in common/protocol/problem.h."""
    numbers = (0, 2, 0, 0, 0, 0, n, c, k, 1, 1, size, size, 1, 3, 3, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0)
    return struct.pack("<26I", *numbers)


class Entry(NamedTuple):
    """A measurement of a solver."""
    solver: str
    median_ms: float
    samples: int
    spread_ms: float = 0.01


def welcome_body() -> bytes:
    """Returns the welcome of a false kilnd."""
    return struct.pack("<HQQIBII", 1, 0, 1, 1, 0, 8 << 20, IN_FLIGHT_MAX) + block("false kilnd")


def put_body(of: bytes, database_id: str, entry: Entry) -> bytes:
    """Returns the body of a tuning_put of a find record for the user."""
    texts = (database_id, "", "GPU-0", "device", "6.2.4", "", "kiln", )
    row = block(entry.solver) + block("miopenConvolutionFwdAlgoDirect") + block("") + \
        struct.pack("<QIdd", 0, entry.samples, entry.median_ms, entry.spread_ms)
    return struct.pack("<BB", 0, 3) + of + b"".join(map(block, texts)) + \
        struct.pack("<I", 1500) + block(b"") + struct.pack("<I", 1) + block(row)


def get_body(problems: list[bytes], database_id: str, flags: int = 0) -> bytes:
    """Returns the body of a tuning_get of find records."""
    return struct.pack("<BB", 0, flags) + block(database_id) + block("") + block("") + \
        block("") + struct.pack("<I", len(problems)) + block(b"".join(problems))


class Result(NamedTuple):
    """The result of one fetch."""
    code: int
    tier: int
    key: bytes
    object: bytes
    size: int
    content: bytes
    text: str
    log: str


RESULT = struct.Struct("<IHBH32s32sQQ")


def read_results(body: bytes) -> list[Result]:
    count, results = struct.unpack_from("<I", body)[0], []
    listed, _ = take_block(body, 4)
    at = 0
    for _ in range(count):
        _, code, tier, _, key, digest, size, _ = RESULT.unpack_from(listed, at)
        content, at = take_block(listed, at + RESULT.size)
        text, at = take_block(listed, at)
        log, at = take_block(listed, at)
        results.append(Result(code, tier, key, digest, size, content, text.decode(errors="replace"),
                              log.decode(errors="replace")))
    return results


# ---- connections ----

class Connection:
    """A connection after the handshake, for one request at a time or for raw frames."""

    def __init__(self, path: str, timeout_s: float | None = 120) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connect(path, timeout_s or 0)
        self.socket.settimeout(timeout_s)
        self.buffer = bytearray()
        self.fds: list[int] = []
        self.next = 1
        self.socket.sendall(hello())
        if self.receive().type != TYPES["welcome"]:
            raise Closed("no welcome")

    def _connect(self, path: str, timeout_s: float) -> None:
        """Connects. Blocks while kilnd's backlog is full, as libkiln does. |timeout_s| 0 means no
        limit."""
        limit = struct.pack("@ll", int(timeout_s), int(timeout_s % 1 * 1e6))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self.socket.connect(path)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", 0, 0))

    def close(self) -> None:
        self.socket.close()

    def send(self, kind: str, body: bytes = b"", fds: Iterable[int] = ()) -> int:
        """Sends a request, and returns the request's id."""
        self.next += 1
        files = list(fds)
        data = frame(kind, self.next, body, len(files))
        if files:
            passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
            sent = self.socket.sendmsg([data], passed)
            data = data[sent:]
        self.socket.sendall(data)
        return self.next

    def _read(self) -> None:
        room = socket.CMSG_SPACE(DESCRIPTORS_MAX * 4)
        data, controls, _, _ = self.socket.recvmsg(READ_SIZE, room, socket.MSG_CMSG_CLOEXEC)
        for _, _, raw in controls:
            got = array.array("i")
            got.frombytes(raw[:len(raw) - len(raw) % got.itemsize])
            self.fds += got
        if not data:
            raise Closed("kilnd closed the connection")
        self.buffer += data

    def receive(self) -> Frame:
        while len(self.buffer) < HEADER.size:
            self._read()
        _, _, kind, request, size, count, flags = HEADER.unpack_from(self.buffer)
        while len(self.buffer) < HEADER.size + size:
            self._read()
        body = bytes(self.buffer[HEADER.size:HEADER.size + size])
        del self.buffer[:HEADER.size + size]
        fds, self.fds = self.fds[:count], self.fds[count:]
        return Frame(kind, request, flags, body, fds)

    def skip_frames(self, wait_s: float) -> tuple[int, int, int]:
        """Reads the frames that have arrived. Waits for at least one frame until the time is over.
        Returns the numbers of frames, of last frames of answers, and of errors. Stores no frame, so
        that reading is fast."""
        frames = answers = errors = 0
        if not select.select([self.socket], [], [], wait_s)[0]:
            return 0, 0, 0
        self._read()
        at = 0
        while len(self.buffer) - at >= HEADER.size:
            _, _, kind, _, size, _, flags = HEADER.unpack_from(self.buffer, at)
            if len(self.buffer) - at < HEADER.size + size:
                break
            at += HEADER.size + size
            frames += 1
            answers += not flags & MORE
            errors += kind == TYPES["error"]
        del self.buffer[:at]
        for fd in self.fds:
            os.close(fd)
        self.fds.clear()
        return frames, answers, errors

    def answer(self) -> Frame:
        """Returns the last frame of an answer. Raises errors."""
        while True:
            got = self.receive()
            if not got.flags & MORE:
                break
            got.close()
        if got.type == TYPES["error"]:
            text, at = take_block(got.body, 2)
            raise Refused(struct.unpack_from("<H", got.body)[0], text.decode(errors="replace"),
                          take_block(got.body, at)[0].decode(errors="replace"))
        return got

    # ---- whole requests ----

    def ping(self) -> None:
        self.send("ping", block(b"x"))
        self.answer()

    def _fetch(self, kind: str, body: bytes) -> Result:
        self.send(kind, body)
        got = self.answer()
        got.close()
        return read_results(got.body)[0]

    def fetch(self, key: bytes) -> Result:
        return self._fetch("fetch", fetch_body(key))

    def fetch_source(self, source: Source, flags: int = 0) -> Result:
        return self._fetch("fetch_source", source_body(source, flags))

    def fetch_name(self, database_id: str, name: str, args: str) -> Result:
        return self._fetch("fetch_name", name_body(database_id, name, args))

    def raw(self, kind: str, body: bytes = b"", fds: Iterable[int] = ()) -> bytes:
        """Sends a request, and returns the bytes of all frames of its answer."""
        self.send(kind, body, fds)
        whole = b""
        while True:
            got = self.receive()
            got.close()
            whole += got.body
            if not got.flags & MORE:
                return whole

    def ask(self, kind: str, members: dict[str, Any] | None = None,
            files: Iterable[pathlib.Path] = ()) -> dict[str, Any]:
        """Sends a request in JSON, and returns the answer."""
        opened = [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in files]
        try:
            self.send(kind, json.dumps(members).encode() if members else b"", opened)
        finally:
            for fd in opened:
                os.close(fd)
        got = self.answer()
        got.close()
        answer: dict[str, Any] = json.loads(got.body)
        return answer

    def solutions(self, of: bytes, target: str, database_id: str) -> list[str]:
        """Returns the names of the solvers that apply, in the order in which plans prefer them."""
        self.send("solutions", of + block(target) + block(database_id) + block("") + block(""))
        body = self.answer().body
        names, at = [], 0
        listed, _ = take_block(body, 4)
        for _ in range(struct.unpack_from("<I", body)[0]):
            name, at = take_block(listed, at)
            _, at = take_block(listed, at)  # algorithm
            _, at = take_block(listed, at + 9)  # flags, find_ms; config
            _, at = take_block(listed, at + 8)  # workspace; best_config
            at += 24  # best_ms, best_workspace, candidates, valid
            names.append(name.decode())
        return names
