# SPDX-License-Identifier: MIT
"""Python functions that libkiln calls, and the handling of their exceptions."""
import sys
import threading
from typing import Any, Callable, Optional

from .errors import CancelledError, KilnError


def _is_of(unraisable: Any, entry: object) -> bool:
    """Returns whether |entry| raised the exception. From Python 3.13 on, ctypes names the function
    only in the message."""
    if unraisable.object is not None:
        return unraisable.object is entry
    return repr(entry) in (unraisable.err_msg or "")


def lost() -> RuntimeError:
    """Returns the error for a lost exception: not a KilnError, because programs treat a KilnError
    as an answer of the daemon."""
    return RuntimeError("an exception that was raised at the start of libkiln's callback is lost; "
                        "sys.unraisablehook has received it")


class Callback:
    """A function that libkiln calls during one call.  An exception of |function| cannot pass
    through libkiln.  So the exception is stored, |function| is not called again, and the end of the
    call raises the exception.

    If a signal arrives while libkiln runs, Python runs its handler before the first statement of
    the callback, outside of any `try`.  ctypes passes the handler's exception to
    sys.unraisablehook, where this class takes it with a hook of its own.  Only the main thread runs
    signal handlers, so the hook is set only there. Nested calls restore the previous hook in order.
    Exceptions from other code go to the previous hook.
    """

    __slots__ = ("_function", "_failure")

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self._failure: Optional[BaseException] = None

    def _keep(self, failure: BaseException) -> None:
        """Stores the first exception. A later exception replaces it only if the later one is no
        Exception, such as KeyboardInterrupt, and the first one is."""
        if self._failure is None or (isinstance(self._failure, Exception)
                                     and not isinstance(failure, Exception)):
            self._failure = failure

    def _enter(self, _context: Any, *arguments: Any) -> int:
        """Returns 1 to stop.  If this function raises an exception, libkiln gets an undefined
        value.  Any value is fine, because the next call of this function returns 1."""
        if self._failure is None:
            try:
                self._function(*arguments)
            except BaseException as error:
                self._keep(error)
        return int(self._failure is not None)

    def run(self, call: Callable[..., None], prototype: Any, *arguments: Any) -> None:
        """Calls |call|, whose last two parameters are the callback and its context."""
        entry = self._enter  # one object, so that the hook can recognise it
        try:
            if threading.current_thread() is threading.main_thread():
                self._run_hooked(entry, call, *arguments, prototype(entry), None)
            else:
                call(*arguments, prototype(entry), None)
        except KilnError as error:
            if self._failure is None:
                if isinstance(error, CancelledError):  # caused by _enter()'s undefined value
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
            if sys.unraisablehook is hook:  # otherwise the function has set a hook of its own
                sys.unraisablehook = previous
