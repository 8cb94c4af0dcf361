# SPDX-License-Identifier: MIT
"""PyTorch's convolution operators in C (libkiln-torch), for the convolutions that are decided."""
import ctypes
import os
import platform
import re
import threading
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Protocol, Sequence, Tuple

import torch

from .._library import load_beside

NAME = "libkiln-torch.so.0"
VARIABLE = "KILN_TORCH_OPERATOR"
# The operators call C++ functions of PyTorch. Their names contain the types of their parameters,
# but not how these types are stored, and a mistake ends the process. So the C operators are the
# default only for versions that were tested with the dispatch key.
TESTED = {"CPU": ("2.14",), "CUDA": ("2.11",)}
DIMENSIONS_MAX = 5
# Two dispatch keys of devices that do not exist. A call that the C operators do not run is sent to
# Python's operators, or to PyTorch's own, as if its tensors were on such a device. So exceptions
# keep their types, and nothing is looked up by name.
ASKED, ORIGINAL = "PrivateUse3", "PrivateUse2"

_Launch = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_Stream = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_void_p)


class _Setup(ctypes.Structure):
    _fields_ = [("functions", ctypes.c_void_p), ("operator_delete", ctypes.c_void_p),
                ("delete_value", ctypes.c_void_p), ("dispatch_key", ctypes.c_char_p),
                ("asked", ctypes.c_uint64), ("original", ctypes.c_uint64),
                ("launch", ctypes.c_void_p), ("stream", ctypes.c_void_p)]


class _Work(ctypes.Structure):
    _fields_ = [("run", ctypes.c_void_p), ("workspace", ctypes.c_uint64),
                ("order", ctypes.c_int32 * 3), ("dims", ctypes.c_int32),
                ("sizes", ctypes.c_int64 * DIMENSIONS_MAX),
                ("strides", ctypes.c_int64 * DIMENSIONS_MAX), ("copies", ctypes.c_int32 * 2),
                ("operand_strides", ctypes.c_int64 * DIMENSIONS_MAX * 2),
                ("calls_max", ctypes.c_int64)]


_FUNCTIONS: Dict[str, Tuple[Any, Sequence[Any]]] = {
    "kiln_torch_symbols": (ctypes.POINTER(ctypes.c_char_p), ()),
    "kiln_torch_new": (ctypes.c_void_p, (ctypes.c_void_p,)),
    "kiln_torch_start": (ctypes.c_int, (ctypes.c_void_p,)),
    "kiln_torch_stop": (None, (ctypes.c_void_p,)),
    "kiln_torch_flags": (ctypes.c_uint32, (ctypes.c_void_p,)),
    "kiln_torch_choice_new": (ctypes.c_void_p, (ctypes.c_void_p,)),
    "kiln_torch_choice_leave": (None, (ctypes.c_void_p,)),
    "kiln_torch_choice_counts": (None, (ctypes.c_void_p, ctypes.c_uint64 * 2)),
    "kiln_torch_remember": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_void_p)),
}


class Unavailable(Exception):
    """The C operators cannot be used; the text says why."""


@dataclass(frozen=True)
class Work:
    """How kiln computes a convolution; see struct kiln_torch_work."""

    run: int  #: address of the struct kiln_run
    workspace: int
    order: Tuple[int, int, int]
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    copies: Sequence[Optional[Tuple[int, ...]]]  #: strides of each operand's copy, if one is made
    calls_max: int


class Decided(Protocol):
    """What is needed from a choice (_choice.Choice)."""

    native: "Optional[NativeChoice]"

    def is_decided(self) -> bool:
        ...

    def work(self) -> Optional[Work]:
        ...

    def is_original(self) -> bool:
        ...


class NativeChoice:
    """The decision for one convolution as the C operators know it, with their counts of calls."""

    __slots__ = ("pointer", "_library")

    def __init__(self, library: ctypes.CDLL, work: Optional[Work]) -> None:
        """Without |work|, PyTorch runs the convolution."""
        self._library = library
        self.pointer = library.kiln_torch_choice_new(
            None if work is None else ctypes.byref(_pack(work)))
        if not self.pointer:
            raise MemoryError

    def leave(self) -> None:
        self._library.kiln_torch_choice_leave(self.pointer)

    def counts(self) -> Tuple[int, int]:
        """Returns how often the C operators ran kiln, and PyTorch."""
        counts = (ctypes.c_uint64 * 2)()
        self._library.kiln_torch_choice_counts(self.pointer, counts)
        return counts[0], counts[1]


def _pack(work: Work) -> _Work:
    packed = _Work(run=work.run, workspace=work.workspace, dims=len(work.shape),
                   calls_max=work.calls_max)
    packed.order[:] = work.order
    packed.sizes[:len(work.shape)] = work.shape
    packed.strides[:len(work.shape)] = work.strides
    for i, strides in enumerate(work.copies):
        if strides is not None:
            packed.copies[i] = 1
            packed.operand_strides[i][:len(strides)] = strides
    return packed


def _address(library: ctypes.CDLL, name: str) -> Optional[int]:
    function = getattr(library, name, None)
    return None if function is None else ctypes.cast(function, ctypes.c_void_p).value


def of_pytorch(name: str) -> Optional[int]:
    """Returns the address of a function of PyTorch's libraries, or None."""
    return _address(ctypes.CDLL(torch._C.__file__), name)


def _key_set(name: str) -> int:
    return int(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name)).raw_repr())


def _is_tested(dispatch_key: str) -> bool:
    """Returns whether the C operators were tested at the key, with this release of PyTorch. What
    comes before a release, such as 2.14.0a0, does not count, nor does ROCm."""
    release = re.match(r"(\d+\.\d+)\.\d+(\+|$)", torch.__version__)
    return torch.version.hip is None and release is not None and \
        release[1] in TESTED.get(dispatch_key, ())


def _check(dispatch_key: str, names: Sequence[str]) -> None:
    """Raises Unavailable where the C operators were not tested."""
    wish = os.environ.get(VARIABLE, "")
    if wish == "python":
        raise Unavailable(f"{VARIABLE} is 'python'")
    if platform.machine() != "x86_64":
        raise Unavailable(f"not tested on {platform.machine()}")
    if wish != "c" and not _is_tested(dispatch_key):
        raise Unavailable(f"not tested with PyTorch {torch.__version__} on {dispatch_key}; "
                          f"{VARIABLE}=c tries them")
    for name in (*names, "_convolution"):  # both keys must lead to PyTorch's own functions
        for key in (ASKED, ORIGINAL):
            if torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", key):
                raise Unavailable(f"aten::{name} is replaced for {key}")


def _symbols(library: ctypes.CDLL) -> Any:
    """Returns an array of the addresses of the functions that |library| calls."""
    names = library.kiln_torch_symbols()
    addresses: List[int] = []
    while names[len(addresses)] is not None:
        name = names[len(addresses)].decode()
        address = of_pytorch(name)
        if address is None:
            raise Unavailable(f"PyTorch {torch.__version__} has no function {name}")
        addresses.append(address)
    return (ctypes.c_void_p * len(addresses))(*addresses)


class Native:
    """The C operators at one dispatch key."""

    def __init__(self, dispatch_key: str, names: Sequence[str],
                 functions_of: Callable[[], Tuple[Optional[int], Optional[int]]]) -> None:
        """|names| are the operators. |functions_of| returns the addresses of
        kiln_run_launch_native(), and of a function int (int32_t device, void **ret_stream). Raises
        Unavailable."""
        _check(dispatch_key, names)
        launch, stream = functions_of()
        if not launch or not stream:
            raise Unavailable("the functions for launches or streams are missing")
        try:
            self._library = load_beside(NAME, _FUNCTIONS)
        except (OSError, AttributeError) as error:
            raise Unavailable(f"cannot load {NAME}: {error}") from None
        functions = _symbols(self._library)
        setup = _Setup(functions=ctypes.addressof(functions), operator_delete=of_pytorch("_ZdlPv"),
                       delete_value=of_pytorch("torch_delete_stable_ivalue"),
                       dispatch_key=dispatch_key.encode(), asked=_key_set(ASKED),
                       original=_key_set(ORIGINAL), launch=launch, stream=stream)
        self._operators = self._library.kiln_torch_new(ctypes.byref(setup))
        if not self._operators:
            raise Unavailable("no memory")
        self._lock = threading.Lock()  # held while a choice is made known

    def start(self) -> None:
        if self._library.kiln_torch_start(self._operators):
            raise RuntimeError("PyTorch did not accept the C operators")

    def stop(self) -> None:
        self._library.kiln_torch_stop(self._operators)

    def flags(self) -> Tuple[bool, ...]:
        """Returns what the C operators see of PyTorch's flags; see _operators._flags()."""
        bits = self._library.kiln_torch_flags(self._operators)
        return tuple(bool(bits >> i & 1) for i in range(4))

    def remember(self, first: Optional[Decided], second: Optional[Decided] = None) -> None:
        """Lets the C operators run calls like this thread's current one, if the choices are
        decided. A choice is None if its result is not wanted."""
        pointers: List[Optional[int]] = []
        for choice in (first, second):
            known = None if choice is None else self._known(choice)
            if known is None and choice is not None:
                return
            pointers.append(None if known is None else known.pointer)
        self._library.kiln_torch_remember(*pointers)

    def _known(self, choice: Decided) -> Optional[NativeChoice]:
        """Returns the choice as the C operators know it, or None if it is not decided."""
        if choice.native is None:
            with self._lock:
                if choice.native is None and choice.is_decided():
                    choice.native = NativeChoice(self._library, choice.work())
                    if choice.is_original():  # another thread may have settled it meanwhile
                        choice.native.leave()
        return choice.native
