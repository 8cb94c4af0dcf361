# SPDX-License-Identifier: MIT
"""Keeps choices in a file of the user's cache, so that a new process need not time again."""
import json
import os
import threading
from dataclasses import asdict, dataclass
from typing import Dict, Optional, Tuple

SIZE_MAX = 8 << 20  # bytes; the next choice replaces the content of a larger file


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


class Records:
    """One file, with a line of JSON for each choice. The last line of a key counts. Several
    processes may append at once. A line that cannot be read is skipped."""

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
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        try:
            if os.fstat(descriptor).st_size > SIZE_MAX:
                os.ftruncate(descriptor, 0)
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def _read(self) -> Dict[str, Record]:
        known: Dict[str, Record] = {}
        if not os.path.isabs(self._path):
            return known
        try:
            with open(self._path, encoding="utf-8", errors="replace") as file:
                for line in file:
                    try:
                        key, record = _parse(line)
                        known[key] = record
                    except (ValueError, TypeError, KeyError, AttributeError):
                        continue
        except OSError:  # there is no file yet
            pass
        return known
