# SPDX-License-Identifier: MIT
"""Keeps choices in a file of the user's cache, so that a new process need not time again."""
import json
import os
import stat
import threading
from dataclasses import asdict, dataclass
from typing import Dict, Optional, Tuple

SIZE_MAX = 8 << 20  # bytes; the next choice replaces the content of a larger file
READ_MAX = 2 * SIZE_MAX  # bytes; the rest of a file is ignored


@dataclass(frozen=True)
class Record:
    """What an earlier process chose for a convolution, with the plan that it timed."""

    kiln: bool  #: whether kiln was chosen
    reason: str
    solver: str
    config: str
    code: str  #: identifies the plan's code objects
    kiln_us: float
    original_us: float
    shape: Tuple[int, ...]  #: of the result
    strides: Tuple[int, ...]  #: of the result, which its shape and layout do not always determine
    last: bool  #: whether the layout is channels last


_TYPES = {"kiln": bool, "reason": str, "solver": str, "config": str, "code": str,
          "kiln_us": float, "original_us": float, "last": bool}


def directory() -> str:
    """Returns where records are stored. Without a home directory, the path is relative, and no
    records are stored."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):  # the XDG specification says to ignore a relative path
        cache = os.path.expanduser("~/.cache")
    return os.path.join(cache, "kiln", "torch")


def _parse(line: str) -> Tuple[str, Record]:
    """Parses a line. Raises an error unless every field has its type."""
    fields = json.loads(line)
    key = fields.pop("key")
    for name in ("shape", "strides"):
        fields[name] = tuple(fields[name])
    record = Record(**fields)
    for name, type_ in _TYPES.items():
        if not isinstance(getattr(record, name), type_):
            raise TypeError(name)
    if not all(isinstance(n, int) and n > 0 for n in record.shape):
        raise ValueError("shape")
    if len(record.strides) != len(record.shape) or \
            not all(isinstance(n, int) and n >= 0 for n in record.strides):
        raise ValueError("strides")
    return str(key), record


def _is_private(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


class Records:
    """One file, with a line of JSON for each choice. The last line of a key counts. Several
    processes may append at once. A line that cannot be read is skipped. A file that another user
    could have written or replaced is not used."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: Optional[Dict[str, Record]] = None

    def get(self, key: str) -> Optional[Record]:
        with self._lock:
            if self._known is None:
                self._known = self._read()
            return self._known.get(key)

    def put(self, key: str, record: Record) -> None:
        """Raises OSError if the file cannot be written."""
        if not os.path.isabs(self._path):
            return
        line = json.dumps({"key": key, **asdict(record)}) + "\n"
        directory = os.path.dirname(self._path)
        for path in (os.path.dirname(directory), directory):  # kilnd's cache needs this mode
            os.makedirs(path, mode=0o700, exist_ok=True)
        descriptor = self._open(os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            if os.fstat(descriptor).st_size > SIZE_MAX:
                os.ftruncate(descriptor, 0)
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def _open(self, flags: int) -> int:
        """Returns a descriptor. Raises OSError if another user could have written or replaced the
        file. Does not wait for the writer of a FIFO."""
        flags |= os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(self._path, flags, 0o600)
        file, directory = os.fstat(descriptor), os.stat(os.path.dirname(self._path))
        if stat.S_ISREG(file.st_mode) and _is_private(file) and _is_private(directory):
            return descriptor
        os.close(descriptor)
        raise PermissionError(f"'{self._path}' is not a file that only this user may write")

    def _read(self) -> Dict[str, Record]:
        known: Dict[str, Record] = {}
        if not os.path.isabs(self._path):
            return known
        try:
            with open(self._open(os.O_RDONLY), "rb") as file:
                lines = file.read(READ_MAX).split(b"\n")
        except OSError:  # there is no file yet, or other users may write it
            return known
        for line in lines:
            try:
                key, record = _parse(line.decode(errors="replace"))
                known[key] = record
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                continue
        return known
