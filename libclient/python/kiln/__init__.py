# SPDX-License-Identifier: MIT
"""Client of kilnd, the per-host service for compiled convolution kernels.

    import kiln

    with kiln.Client() as client:
        problem = kiln.Problem(n=1, c=64, k=64, input=(56, 56), filter=3, pad=1)
        plan = client.plan(problem, "gfx90a")

Pure ctypes over libkiln.so.0; docs/python.md has more examples.
"""
from ._library import VERSION as __version__, load_library, version
from ._run import Device
from .client import Client, Status
from .conv import SoonPlan
from .device import DeviceInfo, devices
from .enums import (DataType, Direction, ErrorCode, Layout, Level, PlanSource, Priority, Role,
                    Tensor, Tier, TuningTier)
from .errors import (BusyError, CancelledError, CompileFailedError, CorruptError, DeniedError,
                     FullError, GpuFaultError, InputOutputError, InvalidError, KilnError,
                     LibraryError, NoMemoryError, NotFoundError, TimedOutError, UnavailableError,
                     UnsupportedError)
from .kernel import Kernel, KernelSource
from .plan import Plan, PlanLaunch, PlanObject, Solution
from .problem import DriverLine, Problem
from .tuning import Measurement, Recording, Tuned, TunedEntry

__all__ = [
    "BusyError", "CancelledError", "Client", "CompileFailedError", "CorruptError", "DataType",
    "DeniedError", "Device", "DeviceInfo", "Direction", "DriverLine", "ErrorCode", "FullError",
    "GpuFaultError", "InputOutputError", "InvalidError", "Kernel", "KernelSource", "KilnError",
    "Layout", "Level", "LibraryError", "Measurement", "NoMemoryError", "NotFoundError", "Plan",
    "PlanLaunch", "PlanObject", "PlanSource", "Priority", "Problem", "Recording", "Role",
    "Solution", "SoonPlan", "Status", "Tensor", "Tier", "TimedOutError", "Tuned", "TunedEntry",
    "TuningTier", "UnavailableError", "UnsupportedError", "__version__", "devices",
    "load_library", "version",
]
