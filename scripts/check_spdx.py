#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fail if a source file does not begin with the licence line.

Usage: scripts/check_spdx.py [ROOT]

C and GPU sources have it in the first line, scripts in the first two lines.
"""
import sys

import tree

LINE = "SPDX-License-Identifier: MIT"
FIRST_LINE = tree.CODE + tree.GPU


def wanted_lines(path):
    """Returns how many lines from the top may have the licence line; 0 if the file needs none."""
    if path.suffix in FIRST_LINE:
        return 1
    if path.suffix == ".py" or tree.is_script(path):
        return 2
    return 0


def complaints(root):
    for path, rel in tree.files(root):
        lines = wanted_lines(path)
        if not lines:
            continue
        head = path.read_text(encoding="utf-8", errors="replace").splitlines()[:lines]
        if not any(LINE in line for line in head):
            yield f"{rel}: '{LINE}' is missing from the first {lines} line(s)"


def main():
    found = list(complaints(sys.argv[1] if len(sys.argv) > 1 else tree.ROOT))
    print("\n".join(found) or "every source names its licence")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
