# SPDX-License-Identifier: MIT
"""PyTorch's GPUs, CUDA or ROCm, and kilnd's plans for them."""
import contextlib
import ctypes
import hashlib
import os
from typing import Any, Callable, ContextManager, Dict, List, Optional, Tuple

import torch

from .._call import Handle
from .._library import library, version
from .._run import Device, Run
from ._choice import Request
from ._native import of_pytorch
from ._planner import Planner
from ._records import Record, Records, directory

ROUNDS = 3
ROUND_US = 300.0
LAUNCHES_MAX = 20
# Number of cycles that the GPU waits before a round of launches. Meanwhile, Python enqueues the
# launches, so that Python's own time does not count.
SLEEP_CYCLES = 120_000  # for each launch; 60 us at 2 GHz
_NOTHING = contextlib.nullcontext()


class Cuda:
    """The accelerator of choices (_choice.Accelerator) for a job's GPUs."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._devices: Dict[int, Device] = {}
        self._records: Dict[int, Records] = {}
        self._kind = "hip" if torch.version.hip else "cuda"
        if not hasattr(torch._C, "_cuda_getCurrentRawStream"):
            raise RuntimeError(f"PyTorch {torch.__version__} was built without CUDA and ROCm, and "
                               "kiln runs convolutions only on GPUs")
        self._raw_stream: Callable[[int], int] = torch._C._cuda_getCurrentRawStream

    def _device(self, index: int) -> Device:
        """Opens the device at its first use. If two threads open it at once, both get the same
        object."""
        found = self._devices.get(index)
        if found is None:
            found = self._devices.setdefault(index, Device(f"{self._kind}:{index}"))
        return found

    def ask(self, index: int, requests: List[Request], packages: bool = True) -> None:
        device = self._device(index)
        self._planner.ask([(device, problem, done) for problem, done in requests], packages)

    def leave_packages(self, index: int) -> None:
        self._device(index).refuses_packages = True

    def load(self, index: int, plan: Handle) -> Run:
        return Run(self._device(index), plan)

    def _records_of(self, index: int) -> Records:
        """Returns the records for this GPU model, driver, kiln, PyTorch and cuDNN. Times measured
        with others are not comparable."""
        found = self._records.get(index)
        if found is None:
            device = self._device(index)
            of = (version(), torch.__version__, torch.backends.cudnn.version(),
                  torch.cuda.get_device_name(index), device.target, device.database_id,
                  device.driver)
            name = hashlib.sha256(repr(of).encode()).hexdigest()[:16] + ".jsonl"
            found = self._records[index] = Records(os.path.join(directory(), name))
        return found

    def recall(self, index: int, key: str) -> Optional[Record]:
        return self._records_of(index).get(key)

    def record(self, index: int, key: str, record: Record) -> None:
        try:
            self._records_of(index).put(key, record)
        except OSError:
            pass  # the next process times again

    def stream(self, index: int) -> int:
        return self._raw_stream(index)

    def on_device(self, index: Optional[int]) -> ContextManager[Any]:
        if index is None or index == torch.cuda.current_device():
            return _NOTHING
        changed: ContextManager[Any] = torch.cuda.device(index)
        return changed

    def native_functions(self) -> Tuple[Optional[int], Optional[int]]:
        """Returns the addresses of the functions that the C operators launch with, and get the
        current stream from."""
        return (ctypes.cast(library().kiln_run_launch_native, ctypes.c_void_p).value,
                of_pytorch("aoti_torch_get_current_cuda_stream"))

    def is_capturing(self) -> bool:
        return bool(torch.cuda.is_current_stream_capturing())

    def times(self, index: int, first: Callable[[], Any],
              second: Callable[[], Any]) -> Tuple[float, float]:
        """Times both functions in turns, and returns the shortest time of each, in microseconds."""
        calls = (first, second)
        best = [float("inf"), float("inf")]
        with torch.cuda.device(index):
            once = max(_time(call, 1) for call in calls)
            launches = int(min(LAUNCHES_MAX, max(1.0, ROUND_US // once)))
            for _ in range(ROUNDS):
                for i, call in enumerate(calls):
                    best[i] = min(best[i], _time(call, launches))
        return best[0], best[1]


def _time(call: Callable[[], Any], launches: int) -> float:
    """Returns the GPU's time of one call, in microseconds."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(SLEEP_CYCLES * launches)
    begin.record()
    for _ in range(launches):
        call()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e3 / launches
