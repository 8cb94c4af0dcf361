# SPDX-License-Identifier: MIT
"""Finds libkiln.so.0: one per process, loaded at its first use."""
import ctypes
import os
from typing import List, Optional, Union

from ._abi import FUNCTIONS
from .enums import ErrorCode
from .errors import LibraryError, invalid

NAME = "libkiln.so.0"
VARIABLE = "KILN_LIBRARY_PATH"
VERSION = "0.1.0"  # of this package: that of the libkiln it comes with

_loaded: Optional[ctypes.CDLL] = None


def _wanted(path: Optional[str]) -> str:
    """A file, or the bare name, which the dynamic loader looks for."""
    path = path or os.environ.get(VARIABLE) or NAME
    return os.path.join(path, NAME) if os.path.isdir(path) else path


def _open(path: str) -> ctypes.CDLL:
    try:
        found = ctypes.CDLL(path)
    except OSError as error:
        raise LibraryError(
            ErrorCode.UNAVAILABLE,
            f"cannot load '{path}': {error}; install libkiln0, or have {VARIABLE} name the file or "
            "its directory") from None
    missing: List[str] = []
    for name, result, parameters in FUNCTIONS:
        function = getattr(found, name, None)
        if function is None:
            missing.append(name)
            continue
        function.restype = result
        function.argtypes = parameters
    if missing:
        raise LibraryError(
            ErrorCode.UNAVAILABLE,
            f"'{path}' lacks {len(missing)} of {len(FUNCTIONS)} functions, '{missing[0]}' for one: "
            "it is not libkiln, or its version differs from that of this package")
    _check_version(found, path)
    return found


def _check_version(found: ctypes.CDLL, path: str) -> None:
    """Until 1.0 the ABI may change with each minor version."""
    text = found.kiln_version().decode()
    if text.split(".")[:2] != VERSION.split(".")[:2]:
        raise LibraryError(
            ErrorCode.UNAVAILABLE,
            f"'{path}' is libkiln {text}, and this package is for {VERSION}: install both of one "
            "version")


def library() -> ctypes.CDLL:
    """libkiln, loaded on the first call.

    There is no lock, because a forked child might find it held. Threads that race get the same
    library from the dynamic loader.
    """
    global _loaded
    if _loaded is None:
        _loaded = _open(_wanted(None))
    return _loaded


def load_library(path: Union[str, "os.PathLike[str]", None] = None) -> str:
    """Loads libkiln from |path|, a file or its directory, and returns the name it was loaded by.

    Without |path|: from $KILN_LIBRARY_PATH, else libkiln.so.0 as the dynamic loader finds it. The
    first call that needs libkiln loads it in this way, too. A process has one libkiln: loading
    another one later raises InvalidError.
    """
    global _loaded
    name = _wanted(os.fspath(path) if path is not None else None)
    if _loaded is None:
        _loaded = _open(name)
    elif path is not None and not _same(name, _loaded._name):
        raise invalid(f"libkiln was loaded from '{_loaded._name}' already; a process has one")
    return _loaded._name


def _same(one: str, other: str) -> bool:
    return one == other or os.path.realpath(one) == os.path.realpath(other)


def version() -> str:
    """The version of libkiln, such as "0.1.0"."""
    text: bytes = library().kiln_version()
    return text.decode()
