# SPDX-License-Identifier: MIT
"""A client: this process's connection to kilnd."""
import ctypes
import json
import os
from dataclasses import dataclass
from types import TracebackType
from typing import (Any, Callable, Dict, List, Mapping, NoReturn, Optional, Sequence, Type, Union,
                    cast)

from . import _abi, conv, kernel as kernels, plan as plans, problem as problems_, tuning
from ._callback import Callback, lost
from ._call import Handle, call, to_bytes, to_error, to_milliseconds, to_text
from ._library import library
from ._run import Device, held_plan
from .conv import SoonPlan
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

    level: Level  #: of the server that answered last; NONE before the first answer
    socket_path: str  #: where the client looks for the daemon
    daemon: str  #: such as "kilnd 0.1.0"; "" before the first answer
    daemon_pid: int  #: 0 before the first answer
    role: Role  #: this user's role, according to the daemon
    reason: str  #: why |level| is not DAEMON; "" if |level| is DAEMON
    requests: int  #: number of requests sent to the daemon
    reconnects: int  #: number of connections after the first one
    cache_hits: int  #: number of requests answered from the in-process cache
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
        """Calls |call_batch|, and returns the results."""
        Callback(self._on_ready).run(call_batch, prototype, *arguments)
        if any(result is _MISSING for result in self._results):
            raise lost()
        return self._results


class Client:
    """A process's connection to kilnd, with an in-process cache of answers.

    Threads  any number at once; calls let other Python threads run.
    Fork     a forked child must open its own client: calls of the parent's client raise
             InvalidError.  Kernels obtained before the fork stay valid.
    Time     |timeout| is in seconds; None means the client's default (120 s unless set otherwise).
             When the time is up, the call raises TimedOutError.
    Signals  a Python signal handler, such as that of Ctrl-C, runs at the end of the call; in a
             batch, the handler also runs when the next item is ready.  If the handler raises an
             exception, the batch ends at that item or the next one.
    Closing  close(), the end of a `with` block, or the end of the last reference closes the client.
             Calls in progress in other threads finish normally.
    """

    __slots__ = ("_handle", "__weakref__")

    def __init__(self, socket_path: Optional[Path] = None, *, timeout: Optional[float] = None,
                 name: Optional[str] = None, cache_entries: int = 0,
                 fallback: Optional[str] = None) -> None:
        """Does not connect yet, so it succeeds even if no daemon is running.

        |socket_path| None means $KILN_SOCKET, else the usual places.  |cache_entries| is the number
        of answers that this process may cache; 0 means 8192, a negative number none.  |fallback|
        says what to do if no daemon serves: "private" or "off"; None means $KILN_FALLBACK, else
        "private".
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

    # ---- opening and closing ----

    def close(self) -> None:
        """Closes the client. Kernels and plans obtained from it stay valid. Closing twice is
        allowed."""
        self._handle = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client cannot be pickled or copied: another process opens its own")

    def _open_handle(self) -> Handle:
        handle = self._handle
        if handle is None:
            raise invalid("the client is closed")
        return handle

    def _call(self, name: str, *arguments: Any) -> None:
        """Calls a function of libkiln with this client."""
        handle = self._open_handle()  # held during the call: another thread may close the client
        try:
            call(name, handle.pointer, *arguments)
        finally:
            del handle  # an exception keeps its frames alive, which must not keep the client open

    def _call_batch(self, name: str, batch: Union[_abi.KernelBatch, _abi.PlanBatch], ready: Any,
                    _context: None) -> None:
        """Calls a function whose struct contains the callback."""
        batch.ready = ready
        self._call(name, ctypes.byref(batch))

    def _ask(self, name: str, release: str, *arguments: Any) -> Handle:
        """Returns the handle that a function of libkiln writes to its last parameter but one."""
        # Makes the handle before the call, so that no exception after the call can leak the object.
        handle = Handle(release)
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
        """Returns a kernel by its key. Never compiles: raises NotFoundError on a miss."""
        return Kernel(self._ask("kiln_kernel_fetch", "kiln_kernel_unref", to_bytes(key, "key"),
                                to_milliseconds(timeout)))

    def fetch_source(self, source: KernelSource, timeout: Optional[float] = None) -> Kernel:
        """Returns the kernel of a source. The daemon compiles the kernel if it is not cached."""
        sources = kernels.to_array([source])
        sources[0].timeout_ms = to_milliseconds(timeout)
        return Kernel(self._ask("kiln_kernel_fetch_source", "kiln_kernel_unref", sources))

    def fetch_named(self, database_id: str, name: str, args: str = "",
                    timeout: Optional[float] = None) -> Kernel:
        """Returns a kernel by MIOpen's name for it and its arguments, verbatim. Raises
        NotFoundError on a miss."""
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

        |ready| is called on this thread with the index and result of each kernel, as it becomes
        ready.  |ready| may use this client.  If |ready| raises an exception, the call ends with
        this exception.
        |timeout| is for the whole batch.
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
             heuristic: bool = False, nearest: bool = False, generic: bool = False,
             packages: bool = True, objects: bool = True,
             priority: Priority = Priority.INTERACTIVE, timeout: Optional[float] = None) -> Plan:
        """Returns a plan with its code objects.  kilnd compiles the objects that are not cached.

        |target| is the target to compile for.  |database_id| names the device whose records
        and packages are used; None: use none.  |solver| forces a solver, and |config| its perf
        config. With |heuristic|, all records are ignored.  With |nearest|, the records of the
        most similar problem are used if the problem has no find record.  With |generic|, generic
        kernels that are stored stand in for kernels that are not.  If |packages| is False, kilnd
        compiles kernels that only a package of another compiler has.  If |objects| is False, kilnd
        compiles and caches the code objects, but does not send them.
        """
        options = plans.to_options(target, database_id=database_id, solver=solver, config=config,
                                   toolchain=toolchain, driver=driver, heuristic=heuristic,
                                   nearest=nearest, generic=generic, packages=packages,
                                   objects=objects, priority=priority, timeout=timeout)
        handle = self._ask("kiln_plan_get", "kiln_plan_unref",
                           ctypes.byref(problems_.to_struct(problem)), ctypes.byref(options))
        return plans.from_pointer(handle.pointer)

    def plan_batch(self, problems: Sequence[Problem], target: str, *,
                   database_id: Optional[str] = None, solver: Optional[str] = None,
                   config: Optional[str] = None, toolchain: Optional[str] = None,
                   driver: Optional[str] = None, heuristic: bool = False,
                   nearest: bool = False, generic: bool = False, packages: bool = True,
                   objects: bool = True, priority: Priority = Priority.INTERACTIVE,
                   timeout: Optional[float] = None,
                   ready: Optional[Callable[[int, Union[Plan, KilnError]], object]] = None,
                   ) -> List[Union[Plan, KilnError]]:
        """Requests many plans.  Returns a plan or an error for each problem.

        |ready| is called on this thread with the index and result of each plan, as it becomes
        ready.  |ready| may use this client.  If |ready| raises an exception, the call ends with
        this exception.
        |timeout| is for the whole batch.
        """
        options = plans.to_options(target, database_id=database_id, solver=solver, config=config,
                                   toolchain=toolchain, driver=driver, heuristic=heuristic,
                                   nearest=nearest, generic=generic, packages=packages,
                                   objects=objects, priority=priority, timeout=timeout)
        return self._plan_batch(problems, options, plans.from_pointer, ready)

    def find_soon(self, problem: Problem, device: Device, *, solver: Optional[str] = None,
                  toolchain: Optional[str] = None, frozen: bool = False, record: bool = True,
                  budget: Optional[float] = None, timeout: Optional[float] = None) -> SoonPlan:
        """Returns a plan without measuring: by the problem's records, by those of a similar
        problem, or by the heuristic.  A thread of the client then looks for better plans on
        |device|.

        |budget| is how many seconds the thread may tune the problem; None means 60.  If |record| is
        False, measurements are not recorded.  If |frozen| is True, the plan is final.
        """
        options = conv.to_options(device, solver=solver, toolchain=toolchain, frozen=frozen,
                                  record=record, budget=budget, timeout=timeout)
        result = self._ask("kiln_conv_find", "kiln_conv_result_free",
                           ctypes.byref(problems_.to_struct(problem)), ctypes.byref(options))
        return SoonPlan(self._open_handle(), device, result)

    @property
    def generation(self) -> int:
        """Grows when a better plan of any of the client's problems is ready, and when a problem is
        tuned.  Reads memory only.  0 before the first find_soon()."""
        handle = self._open_handle()  # held during the call: another thread may close the client
        return int(library().kiln_conv_generation(handle.pointer))

    def _plan_handles(self, problems: Sequence[Problem], options: _abi.PlanOptions,
                      ready: Callable[[int, Union[Handle, KilnError]], object]) -> None:
        """For kiln.torch: like plan_batch(), but |ready| receives libkiln's own plans."""
        self._plan_batch(problems, options, held_plan, ready)

    def _plan_batch(self, problems: Sequence[Problem], options: _abi.PlanOptions,
                    take: Callable[[int], Any], ready: Any) -> List[Any]:
        asked = problems_.to_array(problems)
        batch = _abi.PlanBatch(size=ctypes.sizeof(_abi.PlanBatch), problems=asked,
                               count=len(asked), options=ctypes.pointer(options))
        gathering = _Gathering(len(asked), take, ready)
        return gathering.run(self._call_batch, _abi.PlanReady, "kiln_plan_batch", batch)

    def prefetch(self, problems: Sequence[Problem], target: str, *,
                 database_id: Optional[str] = None, solver: Optional[str] = None,
                 toolchain: Optional[str] = None, timeout: Optional[float] = None,
                 ready: Optional[Callable[[int, Union[Plan, KilnError]], object]] = None,
                 ) -> List[Union[Plan, KilnError]]:
        """Compiles and caches the problems' kernels after all interactive requests.

        The returned plans contain no kernels; their objects have only key, tier and size.
        """
        return self.plan_batch(problems, target, database_id=database_id, solver=solver,
                               toolchain=toolchain, objects=False, priority=Priority.PREFETCH,
                               timeout=timeout, ready=ready)

    def solutions(self, problem: Problem, target: str, *, database_id: Optional[str] = None,
                  toolchain: Optional[str] = None, driver: Optional[str] = None,
                  timeout: Optional[float] = None) -> List[Solution]:
        """Returns every solver that applies, in order of preference. Raises UnsupportedError if
        none applies."""
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
        """Returns how long each solver took.  Raises NotFoundError if there is no record.

        |driver| and |toolchain| are the current versions, to detect stale records.  With |nearest|,
        the record of the most similar problem is used if |problem| has no record.  With
        |measurements|, the result has the user and the conditions of each measurement.
        """
        options = tuning.to_options(database_id, backend=backend, driver=driver,
                                    toolchain=toolchain, nearest=nearest,
                                    measurements=measurements, timeout=timeout)
        return self._tuned("kiln_find_get", problem, options)

    def perf_get(self, problem: Problem, database_id: str, *, driver: Optional[str] = None,
                 toolchain: Optional[str] = None, nearest: bool = False, measurements: bool = False,
                 timeout: Optional[float] = None) -> Tuned:
        """Returns the solvers' best perf configs. The parameters are those of find_get()."""
        options = tuning.to_options(database_id, backend=None, driver=driver, toolchain=toolchain,
                                    nearest=nearest, measurements=measurements, timeout=timeout)
        return self._tuned("kiln_perf_get", problem, options)

    def find_get_batch(self, problems: Sequence[Problem], database_id: str, *,
                       backend: Optional[str] = None, driver: Optional[str] = None,
                       toolchain: Optional[str] = None, nearest: bool = False,
                       measurements: bool = False, timeout: Optional[float] = None,
                       ) -> List[Optional[Tuned]]:
        """Looks up many problems. The result has None for problems without a record."""
        options = tuning.to_options(database_id, backend=backend, driver=driver,
                                    toolchain=toolchain, nearest=nearest,
                                    measurements=measurements, timeout=timeout)
        return self._tuned_batch("kiln_find_get_batch", problems, options)

    def perf_get_batch(self, problems: Sequence[Problem], database_id: str, *,
                       driver: Optional[str] = None, toolchain: Optional[str] = None,
                       nearest: bool = False, measurements: bool = False,
                       timeout: Optional[float] = None) -> List[Optional[Tuned]]:
        """Looks up many problems. The result has None for problems without a record."""
        options = tuning.to_options(database_id, backend=None, driver=driver, toolchain=toolchain,
                                    nearest=nearest, measurements=measurements, timeout=timeout)
        return self._tuned_batch("kiln_perf_get_batch", problems, options)

    def find_put(self, problem: Problem, recording: Recording,
                 timeout: Optional[float] = None) -> None:
        """Records how long solvers took.  The record is on disk when the call returns."""
        self._put("kiln_find_put", problem, recording, timeout)

    def perf_put(self, problem: Problem, recording: Recording,
                 timeout: Optional[float] = None) -> None:
        """Records solvers' perf configs.  The record is on disk when the call returns."""
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
