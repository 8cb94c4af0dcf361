# SPDX-License-Identifier: MIT
"""Installs kiln.torch in an unchanged program, when the program has imported torch.

sitecustomize.py imports this module in every Python process of `kilnctl run --torch`, even if the
process never imports torch. So this module imports only modules that every Python has loaded.
"""
from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

# The file to which processes append counts for `kilnctl run --explain`.
REPORT = "KILN_RTC_REPORT"
REASON_MAX = 150  # bytes; kilnctl reads no more of a reason


class _Watcher:
    """Finds the module torch with the other finders of Python, and changes its loader: after the
    loader has loaded torch, it calls _install()."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "torch":
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    self._watch(spec)
                    return spec
        return None

    def _watch(self, spec: ModuleSpec) -> None:
        loader: Any = spec.loader
        if spec.origin is None or not hasattr(loader, "exec_module"):
            return  # not PyTorch, but a directory of this name
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            _install()

        try:
            loader.exec_module = exec_module
        except AttributeError:
            pass  # the program's own kind of loader, which cannot be changed


def watch() -> None:
    sys.meta_path.insert(0, _Watcher())


def _import_kiln() -> None:
    """Makes this package importable by the name kiln, unless the program has a package of that name
    already. Other packages in the same directory stay invisible to the program."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec
    if "kiln" in sys.modules or PathFinder.find_spec("kiln") is not None:
        return
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    spec = PathFinder.find_spec("kiln", [os.path.dirname(package)])
    assert spec is not None and spec.loader is not None
    sys.modules["kiln"] = module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules["kiln"]
        raise


def _install() -> None:
    """Installs kiln.torch. If that fails, prints the reason, and the program continues."""
    try:
        _import_kiln()
        import kiln.torch
        kiln.torch.install()
    except Exception as error:
        reason = _one_line(str(error) or repr(error))
        _append([f"torch_failed 1 {reason}"])
        if sys.stderr is not None:
            print(f"kiln.torch is not installed: {reason}", file=sys.stderr)
        return
    if os.environ.get(REPORT):
        import atexit
        atexit.register(_report, os.getpid())


def _one_line(text: str) -> str:
    return " ".join(text.split()).encode("utf-8", "replace")[:REASON_MAX].decode("utf-8", "ignore")


def _report(pid: int) -> None:
    if os.getpid() != pid:
        return  # a forked child has its parent's counts
    import kiln.torch
    by_reason: dict[str, int] = {}
    known = kiln.torch.convolutions()
    for c in known:
        reason = c.reason or ("called before kiln was chosen" if c.runs_by == "kiln" else c.runs_by)
        by_reason[reason] = by_reason.get(reason, 0) + c.original_calls
    lines = [f"torch_kiln {sum(c.kiln_calls for c in known)}"]
    _append(lines + [f"torch_original {count} {_one_line(reason)}"
                     for reason, count in by_reason.items() if count])


def _append(lines: list[str]) -> None:
    """Writes all lines at once, because several processes may append."""
    path = os.environ.get(REPORT)
    if not path:
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(descriptor, "".join(line + "\n" for line in lines).encode())
        finally:
            os.close(descriptor)
    except OSError:
        pass  # kilnctl has ended
