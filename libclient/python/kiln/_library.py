# SPDX-License-Identifier: MIT
"""Finds libkiln.so.0. A process has one libkiln, which is loaded at its first use."""
import ctypes
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from ._abi import FUNCTIONS
from .enums import ErrorCode
from .errors import LibraryError, invalid

NAME = "libkiln.so.0"
VARIABLE = "KILN_LIBRARY_PATH"
IN_WHEEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", NAME)
VERSION = "0.1.0"  # version of this package, and of the libkiln that it comes with

_loaded: Optional[ctypes.CDLL] = None


def _wanted(path: Optional[str]) -> str:
    """Returns the file to load, or only its name, which the dynamic loader then looks for."""
    path = path or os.environ.get(VARIABLE)
    if not path:
        return IN_WHEEL if os.path.exists(IN_WHEEL) else NAME
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
    """Checks libkiln's version. Until 1.0, the ABI may change with each minor version."""
    text = found.kiln_version().decode()
    if text.split(".")[:2] != VERSION.split(".")[:2]:
        raise LibraryError(
            ErrorCode.UNAVAILABLE,
            f"'{path}' is libkiln {text}, and this package is for {VERSION}: install both of one "
            "version")


def library() -> ctypes.CDLL:
    """Returns libkiln, and loads it on the first call.

    There is no lock, because a forked child might find it held. If several threads load libkiln at
    once, the dynamic loader gives them the same library.
    """
    global _loaded
    if _loaded is None:
        _loaded = _open(_wanted(None))
    return _loaded


def load_library(path: Union[str, "os.PathLike[str]", None] = None) -> str:
    """Loads libkiln from |path|, which is the file or its directory.  Returns the name by which it
    was loaded.

    Without |path|, loads it from $KILN_LIBRARY_PATH, else from the wheel of this package, else the
    libkiln.so.0 that the dynamic loader finds.  The first call that needs libkiln does the same.  A
    process has one libkiln; loading a different one later raises InvalidError.
    """
    global _loaded
    name = _wanted(os.fspath(path) if path is not None else None)
    if _loaded is None:
        _loaded = _open(name)
    elif path is not None and not _same(name, _loaded._name):
        raise invalid(f"libkiln was loaded from '{_loaded._name}' already; a process has one")
    return _loaded._name


def load_beside(name: str, functions: Dict[str, Tuple[Any, Sequence[Any]]]) -> ctypes.CDLL:
    """Loads another library of kiln from where libkiln was loaded. |functions| gives the types of
    the results and parameters. Raises OSError or AttributeError."""
    found = ctypes.CDLL(os.path.join(os.path.dirname(library()._name), name))
    for function, (result, parameters) in functions.items():
        getattr(found, function).restype = result
        getattr(found, function).argtypes = parameters
    return found


def _same(one: str, other: str) -> bool:
    return one == other or os.path.realpath(one) == os.path.realpath(other)


def version() -> str:
    """Returns the version of libkiln, such as "0.1.0"."""
    text: bytes = library().kiln_version()
    return text.decode()
