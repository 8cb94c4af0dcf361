# SPDX-License-Identifier: MIT
"""Requests plans from kilnd on a thread of its own, so that no step of the job waits for kilnd."""
import os
import queue
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


class Planner:
    """A queue of requests. |done| of a request is called on the planner's thread. In a forked
    child, which has no such thread, the requests of the parent are forgotten."""

    def __init__(self, open_client: Callable[[], Client]) -> None:
        self._open_client = open_client
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._client: Optional[Client] = None
        self._requests: "queue.SimpleQueue[List[Request]]" = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._open = 0  # requests without an answer
        self._thread: Optional[threading.Thread] = None

    def ask(self, requests: List[Request]) -> None:
        """Requests the plans in one batch for each device, on another thread."""
        with self._changed:
            self._open += len(requests)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="kiln.torch", daemon=True)
                self._thread.start()
        self._requests.put(requests)

    def wait(self, timeout: Optional[float]) -> bool:
        """Waits until every request has its answer. Returns False if |timeout| (in seconds) ends
        first."""
        with self._changed:
            return self._changed.wait_for(lambda: self._open == 0, timeout)

    def _work(self) -> None:
        while True:
            asked = list(self._requests.get())
            while not self._requests.empty():
                asked += self._requests.get()
            by_device: Dict[Device, List[Request]] = {}
            for request in asked:
                by_device.setdefault(request[0], []).append(request)
            for device, requests in by_device.items():
                self._plan(device, requests)

    def _plan(self, device: Device, requests: List[Request]) -> None:
        answered = [False] * len(requests)

        def ready(index: int, answer: Any) -> None:
            answered[index] = True
            self._answer(requests[index], answer)

        failure: Exception = KilnError(0, "kilnd gave no answer")
        try:
            self._request(device, [problem for _, problem, _ in requests], ready)
        except Exception as error:
            failure = error
        for request, done in zip(requests, answered):
            if not done:
                self._answer(request, failure)

    def _request(self, device: Device, problems: List[Problem],
                 ready: Callable[[int, Any], None]) -> None:
        if self._client is None:
            self._client = self._open_client()
        options = to_options(device.target, database_id=device.database_id, toolchain=None,
                             driver=device.driver, priority=Priority.PREFETCH, timeout=TIMEOUT_S)
        self._client._plan_handles(problems, options, ready)

    def _answer(self, request: Request, answer: Answer) -> None:
        try:
            request[2](answer)
        finally:
            with self._changed:
                self._open -= 1
                self._changed.notify_all()
