# SPDX-License-Identifier: MIT
"""Runs: plans that are loaded on a device and launched on a framework's own memory."""
import ctypes
import struct
from typing import Tuple

from . import _abi
from ._call import Handle, call, to_bytes, to_error, to_text
from ._library import library

_TENSORS_SIZE = ctypes.sizeof(_abi.NativeTensors)
# Packs the C struct kiln_native_tensors into bytes. Making and passing bytes takes less than half
# of the time that a ctypes.Structure takes.
pack_tensors = struct.Struct("@NPPPPQP").pack
_Launch = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class Device:
    """A GPU of this process, in the context that the framework uses. Code that was loaded stays
    loaded as long as this object exists."""

    __slots__ = ("handle", "name", "target", "database_id", "driver", "refuses_packages")

    def __init__(self, name: str) -> None:
        lib = library()
        self.handle = Handle("kiln_device_close")
        call("kiln_device_open", to_bytes(name, "name"), ctypes.byref(self.handle.place))
        pointer = self.handle.pointer
        self.name = name
        self.refuses_packages = False  # the driver refused code that may be of a package
        self.target = to_text(lib.kiln_device_target(pointer))
        self.database_id = to_text(lib.kiln_device_database_id(pointer))
        self.driver = to_text(lib.kiln_device_driver(pointer))


def held_plan(pointer: int) -> Handle:
    """Returns a new reference to a borrowed plan."""
    return Handle("kiln_plan_unref", library().kiln_plan_ref(pointer))


def names_of_plan(plan: Handle) -> Tuple[str, str, str]:
    """Returns the solver, its perf config, and the beginnings of its code objects' keys."""
    lib = library()
    keys = [to_text(lib.kiln_plan_object_key(plan.pointer, i))
            for i in range(lib.kiln_plan_object_count(plan.pointer))]
    return (to_text(lib.kiln_plan_solver(plan.pointer)),
            to_text(lib.kiln_plan_config(plan.pointer)), ",".join(key[:16] for key in keys))


class Run:
    """A plan whose code is loaded on a device. Any thread may launch it."""

    __slots__ = ("workspace", "solver", "config", "code", "pointer", "_handle", "_launch")

    def __init__(self, device: Device, plan: Handle) -> None:
        lib = library()
        self._handle = Handle("kiln_run_destroy")
        call("kiln_run_create", device.handle.pointer, plan.pointer,
             ctypes.byref(self._handle.place))
        self.pointer: int = self._handle.pointer  #: the struct kiln_run
        self._launch = _Launch(("kiln_run_launch_native", lib))
        self.workspace: int = lib.kiln_plan_workspace(plan.pointer)  #: bytes
        self.solver, self.config, self.code = names_of_plan(plan)

    def launch(self, x: int, w: int, y: int, workspace: int, stream: int) -> None:
        """Enqueues the kernels on |stream| and does not wait. The arguments are pointers; the
        caller guarantees the sizes of the tensors and of the workspace."""
        tensors = pack_tensors(_TENSORS_SIZE, x, w, y, workspace, self.workspace, stream)
        if self._launch(self.pointer, tensors, None):
            self._launch_with_error(tensors)

    def _launch_with_error(self, tensors: bytes) -> None:
        """Launches again and raises the error. The first launch did not ask for the error, to save
        time."""
        err = _abi.Error()
        code: int = self._launch(self.pointer, tensors, ctypes.addressof(err))
        if code:
            err.code = code
            raise to_error(err)
