# SPDX-License-Identifier: MIT
"""Converts between the values of Python and libkiln: texts, times, integers, failures, handles."""
import ctypes
import math
import operator
from typing import Any, Optional, SupportsIndex

from . import _abi
from ._library import library
from .errors import KilnError, error_of, invalid

_INT_MAX = 2**31 - 1
_UINT32_MAX = 2**32 - 1
_UINT64_MAX = 2**64 - 1


def to_bytes(text: Optional[str], what: str) -> Optional[bytes]:
    """Encodes a text for libkiln. None stays None. Rejects a NUL, which would truncate the text."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise TypeError(f"{what} must be str, not {type(text).__name__}")
    try:
        encoded = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise invalid(f"{what} holds what UTF-8 cannot express: {text!r}") from None
    if b"\0" in encoded:
        raise invalid(f"{what} holds a NUL: {text!r}")
    return encoded


def to_text(encoded: Optional[bytes]) -> str:
    """Decodes a text of libkiln. Any bytes can be decoded, and to_bytes() of the result returns
    them."""
    return encoded.decode("utf-8", "surrogateescape") if encoded else ""


def to_milliseconds(timeout: Optional[float]) -> int:
    """Converts a time-out in seconds. None becomes 0, which means the default. Rounds up, so that
    no other value becomes 0."""
    if timeout is None:
        return 0
    seconds = float(timeout)
    if not 0 < seconds <= _INT_MAX / 1000:  # this also rejects NaN
        raise invalid(f"a time-out is a number of seconds above 0 and up to {_INT_MAX // 1000}, "
                      f"not {timeout!r}")
    return min(math.ceil(seconds * 1000), _INT_MAX)


def _to_unsigned(value: SupportsIndex, most: int, what: str) -> int:
    number = operator.index(value)
    if not 0 <= number <= most:
        raise invalid(f"{what} is {number}, outside of 0 to {most}")
    return number


def to_uint32(value: SupportsIndex, what: str) -> int:
    """Rejects a number that does not fit, because ctypes would wrap it around."""
    return _to_unsigned(value, _UINT32_MAX, what)


def to_uint64(value: SupportsIndex, what: str) -> int:
    return _to_unsigned(value, _UINT64_MAX, what)


def to_error(err: _abi.Error) -> KilnError:
    """Copies |err|, because libkiln owns it."""
    return error_of(err.code, err.text.decode("utf-8", "replace"),
                    err.log.decode("utf-8", "replace"))


def call(name: str, *arguments: Any) -> None:
    """Calls a function whose last parameter is the error. Raises the error if the call fails."""
    err = _abi.Error()
    code: int = getattr(library(), name)(*arguments, ctypes.byref(err))
    if code:
        err.code = code
        raise to_error(err)


class Handle:
    """A reference to an object of libkiln.  It is released with the last reference to this Handle.

    Code that uses the pointer holds the Handle, so that close() in one thread cannot free an object
    that another thread uses.  It has no lock, because a lock might stay locked in a forked child.
    """

    __slots__ = ("place", "_release")

    def __init__(self, release: str, pointer: Optional[int] = None) -> None:
        """Without |pointer|, libkiln writes a pointer into |place|; until then, the Handle is
        empty."""
        self.place = ctypes.c_void_p(pointer)
        self._release = getattr(library(), release)

    @property
    def pointer(self) -> int:
        return self.place.value or 0

    def __del__(self) -> None:
        if self.pointer:
            self._release(self.pointer)
