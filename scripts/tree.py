# SPDX-License-Identifier: MIT
"""The project's own files, without build folders and what git keeps: for the lints."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = (".c", ".h")
GPU = (".cl", ".hip", ".cu")
_SKIPPED = {"build", ".git", "__pycache__"}


def files(root=ROOT):
    """Every file below |root|, sorted, as (path, path relative to root as text)."""
    found = []
    pending = [pathlib.Path(root)]
    while pending:
        for entry in pending.pop().iterdir():
            if entry.is_symlink() or entry.name in _SKIPPED:
                continue
            if entry.is_dir():
                pending.append(entry)
            else:
                found.append((entry, entry.relative_to(root).as_posix()))
    return sorted(found)


def with_suffix(suffixes, root=ROOT):
    return [(path, rel) for path, rel in files(root) if path.suffix in suffixes]


def is_script(path):
    """True when |path| begins with '#!'."""
    with path.open("rb") as opened:
        return opened.read(2) == b"#!"
