# SPDX-License-Identifier: MIT
"""Provisional plans, and the better ones that replace them (<kiln/conv.h>)."""
import ctypes
from typing import Optional

from . import _abi, plan as plans
from ._call import Handle, call, to_bytes, to_milliseconds
from ._library import library
from ._run import Device
from .plan import Plan

FIND_SOON = 100  #: KILN_FIND_SOON


def to_options(device: Device, *, solver: Optional[str], toolchain: Optional[str], frozen: bool,
               record: bool, budget: Optional[float],
               timeout: Optional[float]) -> _abi.ConvOptions:
    return _abi.ConvOptions(
        size=ctypes.sizeof(_abi.ConvOptions), device=device.handle.pointer,
        timeout_ms=to_milliseconds(timeout), mode=FIND_SOON, budget_ms=to_milliseconds(budget),
        solver=to_bytes(solver, "solver"), toolchain=to_bytes(toolchain, "toolchain"),
        no_record=int(not record), frozen=int(frozen))


class SoonPlan:
    """A plan that a thread of the client replaces by better ones (Client.find_soon).

    Threads  one thread at a time.
    Closing  the client stays open as long as this object exists.
    """

    __slots__ = ("is_tuned", "_client", "_device", "_result")

    def __init__(self, client: Handle, device: Device, result: Handle) -> None:
        self.is_tuned = False  #: at the last refresh, the thread had nothing left to measure
        self._client = client
        self._device = device  # the thread measures on it
        self._result = result

    @property
    def plan(self) -> Plan:
        return plans.from_pointer(library().kiln_conv_result_plan(self._result.pointer))

    @property
    def generation(self) -> int:
        """The client's generation when the plan was obtained or refreshed; 0: the plan is final."""
        return int(library().kiln_conv_result_generation(self._result.pointer))

    def refresh(self) -> bool:
        """Takes the best plan so far, and returns whether it is another one.  Sends no request and
        does not wait."""
        refreshed = _abi.ConvRefreshed(size=ctypes.sizeof(_abi.ConvRefreshed))
        call("kiln_conv_plan_refresh", self._client.pointer, self._result.pointer,
             ctypes.byref(refreshed))
        self.is_tuned = bool(refreshed.is_tuned)
        return bool(refreshed.is_new)
