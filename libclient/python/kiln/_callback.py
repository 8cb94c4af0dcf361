# SPDX-License-Identifier: MIT
"""Python functions that libkiln calls, and the handling of their exceptions."""
import sys
import threading
from typing import Any, Callable, Optional

from .errors import CancelledError, KilnError


def _is_of(unraisable: Any, entry: object) -> bool:
    """From Python 3.13 on ctypes names the function in the message only."""
    if unraisable.object is not None:
        return unraisable.object is entry
    return repr(entry) in (unraisable.err_msg or "")


def lost() -> RuntimeError:
    """Not a KilnError: programs treat a KilnError as an answer of the daemon."""
    return RuntimeError("an exception that was raised on entering libkiln's callback is lost; "
                        "sys.unraisablehook was told of it")


class Callback:
    """A function for one call of libkiln's.  An exception cannot pass through libkiln: it is kept,
    |function| is not called any more, and the exception is raised when the call is over.

    A signal's handler that became due in libkiln runs before the first statement here, outside of
    any `try`.  ctypes gives what it raises to sys.unraisablehook, so that is where it is taken
    from.  Only the main thread runs handlers, so only there the hook is set, and nested calls
    restore it in order; whatever belongs to others goes on to the hook that was there before.
    """

    __slots__ = ("_function", "_failure")

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self._failure: Optional[BaseException] = None

    def _keep(self, failure: BaseException) -> None:
        """The first; but KeyboardInterrupt and its like before what a program may swallow."""
        if self._failure is None or (isinstance(self._failure, Exception)
                                     and not isinstance(failure, Exception)):
            self._failure = failure

    def _enter(self, _context: Any, *arguments: Any) -> int:
        """Not 0: enough.  When it raises libkiln gets an undefined value: either will do, as the
        next call returns 1."""
        if self._failure is None:
            try:
                self._function(*arguments)
            except BaseException as error:
                self._keep(error)
        return int(self._failure is not None)

    def run(self, call: Callable[..., None], prototype: Any, *arguments: Any) -> None:
        """Calls |call|, whose last two parameters are the callback and its context."""
        entry = self._enter  # one object, by which the hook knows it
        try:
            if threading.current_thread() is threading.main_thread():
                self._run_hooked(entry, call, *arguments, prototype(entry), None)
            else:
                call(*arguments, prototype(entry), None)
        except KilnError as error:
            if self._failure is None:
                if isinstance(error, CancelledError):  # by what _enter() returned: see there
                    raise lost() from error
                raise
        if self._failure is not None:
            raise self._failure

    def _run_hooked(self, entry: object, call: Callable[..., None], *arguments: Any) -> None:
        previous = sys.unraisablehook

        def hook(unraisable: Any) -> None:
            if _is_of(unraisable, entry):
                value = unraisable.exc_value
                self._keep(value if value is not None else unraisable.exc_type())
            else:
                previous(unraisable)

        try:
            sys.unraisablehook = hook
            call(*arguments)
        finally:
            if sys.unraisablehook is hook:  # else the function set one of its own
                sys.unraisablehook = previous
