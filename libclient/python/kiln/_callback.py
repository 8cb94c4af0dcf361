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
    return RuntimeError("an exception that was raised at the start of libkiln's callback is lost; "
                        "sys.unraisablehook has received it")


class Callback:
    """A function that libkiln calls during one call.  An exception cannot pass through libkiln: it
    is stored, |function| is not called again, and the exception is raised at the end of the call.

    If a signal arrives while libkiln runs, its handler runs before the first statement of the
    callback, outside of any `try`.  ctypes passes the handler's exception to sys.unraisablehook, so
    a hook takes it from there.  Only the main thread runs handlers, so the hook is only set there.
    Nested calls restore the previous hook in order.  Exceptions of others go to the previous hook.
    """

    __slots__ = ("_function", "_failure")

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self._failure: Optional[BaseException] = None

    def _keep(self, failure: BaseException) -> None:
        """Stores the first exception; KeyboardInterrupt and the like replace an ordinary one."""
        if self._failure is None or (isinstance(self._failure, Exception)
                                     and not isinstance(failure, Exception)):
            self._failure = failure

    def _enter(self, _context: Any, *arguments: Any) -> int:
        """Returns 1 to stop.  If it raises, libkiln gets an undefined value.  Both values are
        correct, because the next call returns 1."""
        if self._failure is None:
            try:
                self._function(*arguments)
            except BaseException as error:
                self._keep(error)
        return int(self._failure is not None)

    def run(self, call: Callable[..., None], prototype: Any, *arguments: Any) -> None:
        """Calls |call|, whose last two parameters are the callback and its context."""
        entry = self._enter  # one object, by which the hook recognises it
        try:
            if threading.current_thread() is threading.main_thread():
                self._run_hooked(entry, call, *arguments, prototype(entry), None)
            else:
                call(*arguments, prototype(entry), None)
        except KilnError as error:
            if self._failure is None:
                if isinstance(error, CancelledError):  # because of _enter()'s undefined value
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
            if sys.unraisablehook is hook:  # otherwise the function has set its own
                sys.unraisablehook = previous
