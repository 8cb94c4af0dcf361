#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fail if a line of Markdown prose, CMake, a script or a kernel has more than 100 columns.

Usage: scripts/check_prose.py [ROOT]

Tables and code in Markdown, and lines with a URL, may be longer.
"""
import re
import sys

import tree

COLUMNS = 100
FENCE = re.compile(r"\s*(```|~~~)")
ITEM = re.compile(r"\s*([-*+]|\d+[.)])\s")


def prose(text):
    """Yields the number and text of every line outside of tables and code."""
    fenced = in_list = in_code = False
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        indented = line.startswith("    ")
        if ITEM.match(line) and not in_code:
            in_list = True
        elif line.strip() and not line.startswith(" "):
            in_list = False
        in_code = indented and not in_list and (in_code or not before.strip())
        before = line
        if not fenced and not in_code and not line.lstrip().startswith("|"):
            yield number, line


def too_long(numbered):
    return [number for number, line in numbered if len(line) > COLUMNS and "://" not in line]


def long_lines(text):
    return too_long(prose(text))


def is_script(path):
    if path.suffix:
        return path.suffix in (".py", ".sh")
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def long_lines_of(path, rel):
    """Returns the numbers of the lines of |path| that are too long. lint.format checks other C
    files."""
    if path.suffix == ".md":
        return long_lines(path.read_text(encoding="utf-8"))
    if path.suffix == ".cmake" or path.name == "CMakeLists.txt" or is_script(path) or \
            rel.startswith("kernels/"):
        return too_long(enumerate(path.read_text(encoding="utf-8").splitlines(), 1))
    return []


def complaints(root):
    for page, rel in tree.files(root):
        numbers = long_lines_of(page, rel)
        if numbers:
            more = f", and {len(numbers) - 1} more lines" if numbers[1:] else ""
            yield f"{rel}:{numbers[0]}: more than {COLUMNS} columns{more}"


def main():
    found = list(complaints(sys.argv[1] if len(sys.argv) > 1 else tree.ROOT))
    print("\n".join(found) or "Markdown, CMake, scripts and kernels are wrapped")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
