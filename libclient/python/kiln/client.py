# SPDX-License-Identifier: MIT
"""A client: this process's connection to kilnd."""
import ctypes
import json
import os
from dataclasses import dataclass
from types import TracebackType
from typing import (Any, Callable, Dict, List, Mapping, NoReturn, Optional, Sequence, Type, Union,
                    cast)

from . import _abi, kernel as kernels, plan as plans, problem as problems_, tuning
from ._callback import Callback, lost
from ._call import Handle, call, to_bytes, to_error, to_milliseconds, to_text
from ._library import library
from .enums import ErrorCode, Priority, Role, Level
from .errors import CorruptError, KilnError, invalid
from .kernel import Kernel, KernelSource
from .plan import Plan, Solution
from .problem import Problem
from .tuning import Recording, Tuned

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Status:
    """What serves the client, with counters."""

    level: Level  #: of the last answer; NONE before the first
    socket_path: str  #: where the client looks for the daemon
    daemon: str  #: "kilnd 0.1.0"; "": no answer yet
    daemon_pid: int  #: 0: no answer yet
    role: Role  #: this user's role, according to the daemon
    reason: str  #: why the level is not DAEMON; "" when it is
    requests: int  #: sent to the daemon
    reconnects: int  #: after the first connection
    cache_hits: int  #: answers of the in-process cache
    cache_entries: int


_MISSING = object()


class _Gathering:
    """The results that a batch's callback receives, by index."""

    def __init__(self, count: int, take: Callable[[int], Any],
                 ready: Optional[Callable[[int, Any], object]]) -> None:
        self._results: List[Any] = [_MISSING] * count
        self._take = take
        self._ready = ready

    def _on_ready(self, index: int, pointer: Optional[int], err: Any) -> None:
        result = self._take(pointer) if pointer else to_error(err.contents)
        self._results[index] = result
        if self._ready:
            self._ready(index, result)

    def run(self, call_batch: Callable[..., None], prototype: Any, *arguments: Any) -> List[Any]:
        """Returns the results of |call_batch|."""
        Callback(self._on_ready).run(call_batch, prototype, *arguments)
        if any(result is _MISSING for result in self._results):
            raise lost()
        return self._results


class Client:
    """A process's connection to kilnd, with an in-process cache of answers.

    Threads  any number at once; calls let other Python threads run.
    Fork     a child opens a client of its own: this one's calls raise InvalidError there.  Kernels
             obtained before stay valid.
    Time     |timeout| is in seconds, None the client's default (120 s unless set otherwise); then
             TimedOutError.
    Signals  a handler, such as that of Ctrl-C, runs at the end of the call; in a batch also when
             the next item is ready.  An exception that it raises ends the batch with that item or
             the next one.
    Closing  close(), the end of a `with` block, or the last reference; calls in progress in other
             threads finish normally.
    """

    __slots__ = ("_handle", "__weakref__")

    def __init__(self, socket_path: Optional[Path] = None, *, timeout: Optional[float] = None,
                 name: Optional[str] = None, cache_entries: int = 0,
                 fallback: Optional[str] = None) -> None:
        """Does not connect yet, so it succeeds even if no daemon is running.

        |socket_path|: None for $KILN_SOCKET, else the usual places.  |cache_entries|: answers that
        this process remembers; 0: 8192; negative: none.  |fallback|: what to do if no daemon
        serves, "private" or "off"; None for $KILN_FALLBACK, else "private".
        """
        self._handle: Optional[Handle] = None
        path = os.fspath(socket_path) if socket_path is not None else None
        if not -2**31 <= cache_entries < 2**31:
            raise invalid(f"cache_entries is {cache_entries}, more than an int holds")
        options = _abi.ClientOptions(
            size=ctypes.sizeof(_abi.ClientOptions), socket_path=to_bytes(path, "socket_path"),
            timeout_ms=to_milliseconds(timeout), name=to_bytes(name, "name"),
            cache_entries=cache_entries, fallback=to_bytes(fallback, "fallback"))
        opened = Handle("kiln_client_close")
        call("kiln_client_open", ctypes.byref(options), ctypes.byref(opened.place))
        self._handle = opened

    # ---- life ----

    def close(self) -> None:
        """Kernels and plans obtained from the client stay valid.  Closing twice is allowed."""
        self._handle = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client cannot be pickled or copied: another process opens its own")

    def _call(self, name: str, *arguments: Any) -> None:
        """Calls a function of libkiln with this client."""
        handle = self._handle  # held meanwhile: another thread may close
        if handle is None:
            raise invalid("the client is closed")
        try:
            call(name, handle.pointer, *arguments)
        finally:
            del handle  # an exception keeps its frames, and they must not keep the client open

    def _call_batch(self, name: str, batch: Union[_abi.KernelBatch, _abi.PlanBatch], ready: Any,
                    _context: None) -> None:
        """Calls a function whose struct names the callback."""
        batch.ready = ready
        self._call(name, ctypes.byref(batch))

    def _ask(self, name: str, release: str, *arguments: Any) -> Handle:
        """Calls a function whose last parameter but one receives a handle."""
        handle = Handle(release)  # before the call, so that an exception after it loses nothing
        self._call(name, *arguments, ctypes.byref(handle.place))
        return handle

    # ---- the daemon ----

    def ping(self, timeout: Optional[float] = None) -> float:
        """Checks that the daemon answers; returns the round-trip time in seconds."""
        took = ctypes.c_uint64()
        self._call("kiln_client_ping", to_milliseconds(timeout), ctypes.byref(took))
        return took.value / 1e9

    def status(self) -> Status:
        """Reports what serves the client, with counters; never blocks."""
        s = _abi.Status(size=ctypes.sizeof(_abi.Status))
        self._call("kiln_client_status", ctypes.byref(s))
        return Status(level=Level(s.level), socket_path=to_text(s.socket_path),
                      daemon=to_text(s.daemon), daemon_pid=s.daemon_pid, role=Role(s.role),
                      reason=to_text(s.reason), requests=s.requests, reconnects=s.reconnects,
                      cache_hits=s.cache_hits, cache_entries=s.cache_entries)

    def admin(self, request: str, arguments: Optional[Mapping[str, Any]] = None,
              timeout: Optional[float] = None) -> Dict[str, Any]:
        """Sends a JSON request of docs/protocol.md: "status", "stats", "toolchains", ..."""
        answer = ctypes.c_char_p()
        body = json.dumps(dict(arguments or {}))
        asked = _abi.AdminCall(size=ctypes.sizeof(_abi.AdminCall),
                               request=to_bytes(request, "request"),
                               json=to_bytes(body, "arguments"),
                               timeout_ms=to_milliseconds(timeout))
        self._call("kiln_admin", ctypes.byref(asked), ctypes.byref(answer))
        try:
            return cast(Dict[str, Any], json.loads(cast(bytes, answer.value)))
        except ValueError as error:
            raise CorruptError(ErrorCode.CORRUPT,
                               f"kilnd's answer to '{request}' is not JSON: {error}") from None
        finally:
            library().kiln_free(answer)

    # ---- kernels ----

    def fetch(self, key: str, timeout: Optional[float] = None) -> Kernel:
        """A kernel by its key.  Never compiles: NotFoundError on a miss."""
        return Kernel(self._ask("kiln_kernel_fetch", "kiln_kernel_unref", to_bytes(key, "key"),
                                to_milliseconds(timeout)))

    def fetch_source(self, source: KernelSource, timeout: Optional[float] = None) -> Kernel:
        """A kernel by its source.  The daemon compiles it if it is not cached."""
        sources = kernels.to_array([source])
        sources[0].timeout_ms = to_milliseconds(timeout)
        return Kernel(self._ask("kiln_kernel_fetch_source", "kiln_kernel_unref", sources))

    def fetch_named(self, database_id: str, name: str, args: str = "",
                    timeout: Optional[float] = None) -> Kernel:
        """A kernel by MIOpen's name and its arguments, verbatim.  NotFoundError on a miss."""
        asked = _abi.KernelName(
            size=ctypes.sizeof(_abi.KernelName), database_id=to_bytes(database_id, "database_id"),
            name=to_bytes(name, "name"), args=to_bytes(args, "args"),
            timeout_ms=to_milliseconds(timeout))
        return Kernel(self._ask("kiln_kernel_fetch_named", "kiln_kernel_unref",
                                ctypes.byref(asked)))

    def fetch_batch(self, wanted: Union[Sequence[str], Sequence[KernelSource]],
                    timeout: Optional[float] = None,
                    ready: Optional[Callable[[int, Union[Kernel, KilnError]], object]] = None,
                    ) -> List[Union[Kernel, KilnError]]:
        """Fetches many kernels by keys or sources.  Returns a kernel or an error for each.

        |ready| is called on this thread with index and result, as they become ready.  It may use
        this client.  If it raises an exception, the call ends and raises it.  |timeout| is for the
        whole batch.
        """
        if isinstance(wanted, str):
            raise TypeError("wanted must be a sequence of keys, not one key")
        by_source = len(wanted) > 0 and isinstance(wanted[0], KernelSource)
        keys: Any = None
        sources: Any = None
        if by_source:
            sources = kernels.to_array(cast(Sequence[KernelSource], wanted))
        else:
            texts = [to_bytes(key, "a key") for key in cast(Sequence[str], wanted)]
            keys = (ctypes.c_char_p * len(texts))(*texts)
        batch = _abi.KernelBatch(size=ctypes.sizeof(_abi.KernelBatch), keys=keys, sources=sources,
                                 count=len(wanted), timeout_ms=to_milliseconds(timeout))
        gathering = _Gathering(len(wanted), kernels.held, ready)
        return gathering.run(self._call_batch, _abi.KernelReady, "kiln_kernel_fetch_batch", batch)

    # ---- plans ----

    def plan(self, problem: Problem, target: str, *, database_id: Optional[str] = None,
             solver: Optional[str] = None, config: Optional[str] = None,
             toolchain: Optional[str] = None, driver: Optional[str] = None,
             heuristic: bool = False, objects: bool = True,
             priority: Priority = Priority.INTERACTIVE, timeout: Optional[float] = None) -> Plan:
        """Returns a plan with its code objects; kilnd compiles those that are not cached.

        |target| is the target to compile for.  |database_id| is the device whose records and
        packages are used; None: use none.  |solver| forces a solver, and |config| its perf config.
        |heuristic| ignores all records.  |objects| False: compile and cache the code objects, but
        do not send them.
        """
        options = plans.to_options(target, database_id=database_id, solver=solver, config=config,
                                   toolchain=toolchain, driver=driver, heuristic=heuristic,
                                   objects=objects, priority=priority, timeout=timeout)
        handle = self._ask("kiln_plan_get", "kiln_plan_unref",
                           ctypes.byref(problems_.to_struct(problem)), ctypes.byref(options))
        return plans.from_pointer(handle.pointer)

    def plan_batch(self, problems: Sequence[Problem], target: str, *,
                   database_id: Optional[str] = None, solver: Optional[str] = None,
                   config: Optional[str] = None, toolchain: Optional[str] = None,
                   driver: Optional[str] = None, heuristic: bool = False, objects: bool = True,
                   priority: Priority = Priority.INTERACTIVE, timeout: Optional[float] = None,
                   ready: Optional[Callable[[int, Union[Plan, KilnError]], object]] = None,
                   ) -> List[Union[Plan, KilnError]]:
        """Requests many plans.  Returns a plan or an error for each problem.

        |ready| is called on this thread with index and result, as they become ready.  It may use
        this client.  If it raises an exception, the call ends and raises it.  |timeout| is for the
        whole batch.
        """
        options = plans.to_options(target, database_id=database_id, solver=solver, config=config,
                                   toolchain=toolchain, driver=driver, heuristic=heuristic,
                                   objects=objects, priority=priority, timeout=timeout)
        asked = problems_.to_array(problems)
        batch = _abi.PlanBatch(size=ctypes.sizeof(_abi.PlanBatch), problems=asked,
                               count=len(asked), options=ctypes.pointer(options))
        gathering = _Gathering(len(asked), plans.from_pointer, ready)
        return gathering.run(self._call_batch, _abi.PlanReady, "kiln_plan_batch", batch)

    def prefetch(self, problems: Sequence[Problem], target: str, *,
                 database_id: Optional[str] = None, solver: Optional[str] = None,
                 toolchain: Optional[str] = None, timeout: Optional[float] = None,
                 ready: Optional[Callable[[int, Union[Plan, KilnError]], object]] = None,
                 ) -> List[Union[Plan, KilnError]]:
        """Compiles and caches the problems' kernels after all interactive requests.

        The plans contain no kernels; their objects have key, tier and size.
        """
        return self.plan_batch(problems, target, database_id=database_id, solver=solver,
                               toolchain=toolchain, objects=False, priority=Priority.PREFETCH,
                               timeout=timeout, ready=ready)

    def solutions(self, problem: Problem, target: str, *, database_id: Optional[str] = None,
                  toolchain: Optional[str] = None, driver: Optional[str] = None,
                  timeout: Optional[float] = None) -> List[Solution]:
        """Every solver that applies, in order of preference.  UnsupportedError if none applies."""
        options = plans.to_options(target, database_id=database_id, toolchain=toolchain,
                                   driver=driver, timeout=timeout)
        return plans.from_solutions(
            self._ask("kiln_solutions_get", "kiln_solutions_free",
                      ctypes.byref(problems_.to_struct(problem)), ctypes.byref(options)))

    # ---- tuning records ----

    def find_get(self, problem: Problem, database_id: str, *, backend: Optional[str] = None,
                 driver: Optional[str] = None, toolchain: Optional[str] = None,
                 nearest: bool = False, measurements: bool = False,
                 timeout: Optional[float] = None) -> Tuned:
        """How long each solver took.  NotFoundError if there is no record.

        |driver| and |toolchain| are current versions, to detect stale records.  |nearest|: without
        a record, use the nearest problem's.  |measurements|: return the user and the conditions of
        each measurement.
        """
        options = tuning.to_options(database_id, backend=backend, driver=driver,
                                    toolchain=toolchain, nearest=nearest,
                                    measurements=measurements, timeout=timeout)
        return self._tuned("kiln_find_get", problem, options)

    def perf_get(self, problem: Problem, database_id: str, *, driver: Optional[str] = None,
                 toolchain: Optional[str] = None, nearest: bool = False, measurements: bool = False,
                 timeout: Optional[float] = None) -> Tuned:
        """Solvers' best perf configs.  Otherwise like find_get()."""
        options = tuning.to_options(database_id, backend=None, driver=driver, toolchain=toolchain,
                                    nearest=nearest, measurements=measurements, timeout=timeout)
        return self._tuned("kiln_perf_get", problem, options)

    def find_get_batch(self, problems: Sequence[Problem], database_id: str, *,
                       backend: Optional[str] = None, driver: Optional[str] = None,
                       toolchain: Optional[str] = None, nearest: bool = False,
                       measurements: bool = False, timeout: Optional[float] = None,
                       ) -> List[Optional[Tuned]]:
        """Looks up many problems.  None for problems without a record."""
        options = tuning.to_options(database_id, backend=backend, driver=driver,
                                    toolchain=toolchain, nearest=nearest,
                                    measurements=measurements, timeout=timeout)
        return self._tuned_batch("kiln_find_get_batch", problems, options)

    def perf_get_batch(self, problems: Sequence[Problem], database_id: str, *,
                       driver: Optional[str] = None, toolchain: Optional[str] = None,
                       nearest: bool = False, measurements: bool = False,
                       timeout: Optional[float] = None) -> List[Optional[Tuned]]:
        """Looks up many problems.  None for problems without a record."""
        options = tuning.to_options(database_id, backend=None, driver=driver, toolchain=toolchain,
                                    nearest=nearest, measurements=measurements, timeout=timeout)
        return self._tuned_batch("kiln_perf_get_batch", problems, options)

    def find_put(self, problem: Problem, recording: Recording,
                 timeout: Optional[float] = None) -> None:
        """Records how long solvers took.  The record is on disk when this returns."""
        self._put("kiln_find_put", problem, recording, timeout)

    def perf_put(self, problem: Problem, recording: Recording,
                 timeout: Optional[float] = None) -> None:
        """Records solvers' perf configs.  The record is on disk when this returns."""
        self._put("kiln_perf_put", problem, recording, timeout)

    def _tuned(self, name: str, problem: Problem, options: _abi.TuningOptions) -> Tuned:
        return tuning.from_handle(
            self._ask(name, "kiln_tuned_free", ctypes.byref(problems_.to_struct(problem)),
                      ctypes.byref(options)))

    def _tuned_batch(self, name: str, problems: Sequence[Problem],
                     options: _abi.TuningOptions) -> List[Optional[Tuned]]:
        asked = problems_.to_array(problems)
        answers = (ctypes.c_void_p * len(asked))()
        batch = _abi.TuningBatch(size=ctypes.sizeof(_abi.TuningBatch), problems=asked,
                                 count=len(asked), options=ctypes.pointer(options))
        self._call(name, ctypes.byref(batch), answers)
        return tuning.from_array(list(answers))

    def _put(self, name: str, problem: Problem, recording: Recording,
             timeout: Optional[float]) -> None:
        made = tuning.to_recording(recording, timeout)
        self._call(name, ctypes.byref(problems_.to_struct(problem)), ctypes.byref(made))
