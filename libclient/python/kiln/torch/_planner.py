# SPDX-License-Identifier: MIT
"""Requests plans from kilnd on threads of its own, so that no step of the job waits for kilnd."""
import os
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from .._call import Handle
from .._run import Device
from ..client import Client
from ..enums import Priority
from ..errors import KilnError
from ..plan import to_options
from ..problem import Problem

Answer = Union[Handle, Exception]
Request = Tuple[Device, Problem, Callable[[Answer], None]]

TIMEOUT_S = 600  # for all plans that are requested together, compilation included
# A thread waits until its batch is answered. Others serve later requests, such as those for plans
# that need no compilation.
THREADS_MAX = 4


class Planner:
    """A queue of requests. |done| of a request is called on a thread of the planner. In a forked
    child, which has no such threads, the requests of the parent are forgotten."""

    def __init__(self, open_client: Callable[[], Client]) -> None:
        self._open_client = open_client
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._client: Optional[Client] = None
        self._opening = threading.Lock()  # held by the thread that opens the client
        self._changed = threading.Condition()
        # Those that no thread has taken yet, and whether kernels of packages may answer them
        self._requests: List[Tuple[Request, bool]] = []
        self._open = 0  # requests without an answer
        self._threads = self._idle = 0

    def ask(self, requests: List[Request], packages: bool = True) -> None:
        """Requests the plans in one batch for each device, on another thread. Without |packages|,
        the plans have no kernels of packages."""
        with self._changed:
            self._open += len(requests)
            self._requests += [(request, packages) for request in requests]
            self._changed.notify_all()
            if self._idle == 0 and self._threads < THREADS_MAX:
                threading.Thread(target=self._work, name="kiln.torch", daemon=True).start()
                self._threads += 1

    def wait(self, timeout: Optional[float]) -> bool:
        """Waits until every request has its answer. Returns False if |timeout| (in seconds) ends
        first."""
        with self._changed:
            return self._changed.wait_for(lambda: self._open == 0, timeout)

    def _work(self) -> None:
        while True:
            batches: Dict[Tuple[Device, bool], List[Request]] = {}
            for request, packages in self._take():
                batches.setdefault((request[0], packages), []).append(request)
            for (device, packages), requests in batches.items():
                self._plan(device, packages, requests)

    def _take(self) -> List[Tuple[Request, bool]]:
        """Waits for requests, and takes all."""
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: bool(self._requests))
            self._idle -= 1
            taken, self._requests = self._requests, []
            return taken

    def _plan(self, device: Device, packages: bool, requests: List[Request]) -> None:
        answered = [False] * len(requests)

        def ready(index: int, answer: Any) -> None:
            answered[index] = True
            self._answer(requests[index], answer)

        failure: Exception = KilnError(0, "kilnd gave no answer")
        try:
            self._request(device, packages, [problem for _, problem, _ in requests], ready)
        except Exception as error:
            failure = error
        for request, done in zip(requests, answered):
            if not done:
                self._answer(request, failure)

    def _request(self, device: Device, packages: bool, problems: List[Problem],
                 ready: Callable[[int, Any], None]) -> None:
        with self._opening:
            if self._client is None:
                self._client = self._open_client()
            client = self._client
        options = to_options(device.target, database_id=device.database_id, toolchain=None,
                             driver=device.driver,
                             packages=packages and not device.refuses_packages,
                             priority=Priority.PREFETCH, timeout=TIMEOUT_S)
        client._plan_handles(problems, options, ready)

    def _answer(self, request: Request, answer: Answer) -> None:
        try:
            request[2](answer)
        finally:
            with self._changed:
                self._open -= 1
                self._changed.notify_all()
