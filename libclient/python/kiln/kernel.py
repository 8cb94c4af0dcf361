# SPDX-License-Identifier: MIT
"""Kernels: compiled code objects, and the sources from which they are compiled."""
import ctypes
from dataclasses import dataclass, field
from types import TracebackType
from typing import Mapping, NoReturn, Optional, Sequence, Type, Union

from . import _abi
from ._call import Handle, to_bytes, to_text
from ._library import library
from .enums import Priority, Tier
from .errors import invalid

Text = Union[str, bytes]


@dataclass(frozen=True)
class KernelSource:
    """The source of a kernel, with its target and options."""

    target: str  #: "gfx90a:sramecc+:xnack-", "gfx1030", "sm_90", "opencl:..."
    program: str  #: name of the translation unit, such as "MyConv.cpp"; not a path
    source: Text
    #: such as "-DTILE=16 -O3"; only allow-listed options are accepted
    options: Optional[str] = None
    #: the text of each header, by the name in #include "name"
    headers: Mapping[str, Text] = field(default_factory=dict)
    toolchain: Optional[str] = None  #: None: the daemon chooses
    priority: Priority = Priority.INTERACTIVE


class Kernel:
    """A compiled code object.  It stays valid and unchanged as long as this object or a view of it
    exists.  It may be used by any thread, after its client was closed, and in a forked child.
    """

    __slots__ = ("_handle", "_key", "_tier", "_size", "_compile_ns", "_bytes",
                 "__weakref__")

    def __init__(self, handle: Handle) -> None:
        """Only for Client, which wraps kernels that libkiln returned."""
        lib = library()
        self._handle: Optional[Handle] = handle
        self._key = to_text(lib.kiln_kernel_key(handle.pointer))
        self._tier = Tier(lib.kiln_kernel_tier(handle.pointer))
        self._size: int = lib.kiln_kernel_size(handle.pointer)
        self._compile_ns: int = lib.kiln_kernel_compile_ns(handle.pointer)
        self._bytes: Optional[bytes] = None  # set at the first access

    @property
    def key(self) -> str:
        """The key: 64 hexadecimal digits."""
        return self._key

    @property
    def tier(self) -> Tier:
        """Where this answer came from."""
        return self._tier

    @property
    def compile_ns(self) -> int:
        """Wall-clock time of the compilation in nanoseconds; 0 if not known."""
        return self._compile_ns

    @property
    def data(self) -> memoryview:
        """The kernel's bytes, read-only. The first access copies them, because a view that ctypes
        makes of the mapping itself would be writable through the view's `obj`. The copy stays
        valid after close()."""
        handle = self._handle
        if handle is None:
            raise invalid("the kernel is closed")
        if self._bytes is None:
            address = library().kiln_kernel_data(handle.pointer)
            self._bytes = ctypes.string_at(address, self._size)
        return memoryview(self._bytes)

    def close(self) -> None:
        """Releases the code object; views of it stay valid.  Closing twice is allowed."""
        self._handle = None
        self._bytes = None

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return bytes(self.data)

    # makes the object bytes-like from Python 3.12 on
    def __buffer__(self, flags: int) -> memoryview:
        return self.data

    def __enter__(self) -> "Kernel":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<kiln.Kernel {self._key[:12]} of {self._size} bytes from {self._tier.name}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a kernel cannot be pickled or copied: pass its key, or bytes(kernel)")


def held(pointer: int) -> Kernel:
    """Returns a Kernel for a borrowed |pointer|, with a new reference."""
    return Kernel(Handle("kiln_kernel_unref", library().kiln_kernel_ref(pointer)))


def _source_bytes(text: Text, what: str) -> bytes:
    """Encodes a source. The source may contain any bytes, because libkiln gets its size."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogateescape")
    if not isinstance(text, bytes):
        raise TypeError(f"{what} must be str or bytes, not {type(text).__name__}")
    return text


def _headers(headers: Mapping[str, Text]) -> "ctypes.Array[_abi.Header]":
    made = (_abi.Header * len(headers))()
    for place, (name, text) in zip(made, headers.items()):
        encoded = _source_bytes(text, f"header '{name}'")
        place.name = to_bytes(name, "a header's name")
        place.text, place.text_size = encoded, len(encoded)
    return made


def _fill(made: _abi.KernelSource, source: KernelSource) -> None:
    text = _source_bytes(source.source, "source")
    made.size = ctypes.sizeof(_abi.KernelSource)
    made.target = to_bytes(source.target, "target")
    made.toolchain = to_bytes(source.toolchain, "toolchain")
    made.program = to_bytes(source.program, "program")
    made.options = to_bytes(source.options, "options")
    made.source, made.source_size = text, len(text)
    made.headers = _headers(source.headers)
    made.header_count = len(source.headers)
    made.priority = Priority(source.priority)


def to_array(sources: Sequence[KernelSource]) -> "ctypes.Array[_abi.KernelSource]":
    """Returns an array that keeps the objects to which it points."""
    made = (_abi.KernelSource * len(sources))()
    for place, source in zip(made, sources):
        _fill(place, source)
    return made
