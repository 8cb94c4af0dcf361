# SPDX-License-Identifier: MIT
"""Lists the project's own files, for the lints: without build directories, .git and ignored files.
"""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = (".c", ".h")
GPU = (".cl", ".hip", ".cu")
_SKIPPED = {"build", ".git", "__pycache__"}


def _listed(root):
    """Returns the tracked files below |root|, and the untracked files that git does not ignore.
    Returns None if |root| is not a checkout or git is not installed."""
    if not (root / ".git").exists():
        return None
    try:
        listing = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others",
                                  "--exclude-standard"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return [root / name for name in listing.stdout.decode().split("\0") if name]


def _walked(root):
    pending = [root]
    while pending:
        for entry in pending.pop().iterdir():
            if entry.is_dir() and not entry.is_symlink() and entry.name not in _SKIPPED:
                pending.append(entry)
            elif not entry.is_dir():
                yield entry


def files(root=ROOT):
    """Returns every file below |root|, sorted, as (path, path relative to root as text)."""
    root = pathlib.Path(root)
    listed = _listed(root)
    candidates = _walked(root) if listed is None else listed
    return sorted((path, path.relative_to(root).as_posix()) for path in candidates
                  if path.is_file() and not path.is_symlink()
                  and not _SKIPPED.intersection(path.relative_to(root).parts))


def with_suffix(suffixes, root=ROOT):
    return [(path, rel) for path, rel in files(root) if path.suffix in suffixes]


def is_script(path):
    """Returns whether |path| begins with '#!'."""
    with path.open("rb") as opened:
        return opened.read(2) == b"#!"
