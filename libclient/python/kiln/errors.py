# SPDX-License-Identifier: MIT
"""Errors: a code for programs, a message for people, and the compiler's log if one ran."""
from typing import Dict, Tuple, Type, Union

from .enums import ErrorCode


class KilnError(Exception):
    """A failed call of libkiln; str() is the message.

    Each code has its own subclass below.  A code that this package does not know is a plain
    KilnError, whose code is an int.
    """

    code: Union[ErrorCode, int]
    text: str
    log: str

    def __init__(self, code: int, text: str, log: str = "") -> None:
        super().__init__(text)
        self.code = ErrorCode(code) if code in _KNOWN else code
        self.text = text
        self.log = log

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later."""
        from ._library import library

        return bool(library().kiln_error_is_retryable(int(self.code)))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        name = self.code.name if isinstance(self.code, ErrorCode) else str(self.code)
        return f"{type(self).__name__}({name}, {self.text!r})"

    def __reduce__(self) -> Tuple[Type["KilnError"], Tuple[int, str, str]]:
        return type(self), (int(self.code), self.text, self.log)


_KNOWN = frozenset(int(code) for code in ErrorCode)


class NotFoundError(KilnError, LookupError):
    """No such entry."""


class InvalidError(KilnError, ValueError):
    """Arguments or request not understood."""


class DeniedError(KilnError):
    """Not allowed."""


class FullError(KilnError):
    """Quota or disk exhausted."""


class BusyError(KilnError):
    """In progress, or too many requests at once."""


class CorruptError(KilnError):
    """Data failed its check."""


class UnavailableError(KilnError):
    """A needed service or library is absent."""


class LibraryError(UnavailableError):
    """libkiln.so.0 itself is absent or does not fit this package."""

    @property
    def retryable(self) -> bool:
        return False


class GpuFaultError(KilnError):
    """The GPU or its driver failed."""


class InputOutputError(KilnError):
    """Input or output failed."""


class NoMemoryError(KilnError, MemoryError):
    """Out of memory."""


class CancelledError(KilnError):
    """Cancelled by the caller."""


class TimedOutError(KilnError, TimeoutError):
    """Not done within the time-out."""


class CompileFailedError(KilnError):
    """The compiler failed, crashed or was stopped; |log| is its output."""


class UnsupportedError(KilnError):
    """No solver, toolchain or device of this host can do this."""


_CLASSES: Dict[int, Type[KilnError]] = {
    ErrorCode.NOT_FOUND: NotFoundError,
    ErrorCode.INVALID: InvalidError,
    ErrorCode.DENIED: DeniedError,
    ErrorCode.FULL: FullError,
    ErrorCode.BUSY: BusyError,
    ErrorCode.CORRUPT: CorruptError,
    ErrorCode.UNAVAILABLE: UnavailableError,
    ErrorCode.GPU_FAULT: GpuFaultError,
    ErrorCode.IO: InputOutputError,
    ErrorCode.NO_MEMORY: NoMemoryError,
    ErrorCode.CANCELLED: CancelledError,
    ErrorCode.TIMED_OUT: TimedOutError,
    ErrorCode.COMPILE_FAILED: CompileFailedError,
    ErrorCode.UNSUPPORTED: UnsupportedError,
}


def error_of(code: int, text: str, log: str = "") -> KilnError:
    """Returns an exception of the class for |code|."""
    return _CLASSES.get(code, KilnError)(code, text, log)


def invalid(text: str) -> InvalidError:
    """Returns an error that is found before libkiln is called."""
    return InvalidError(ErrorCode.INVALID, text)
