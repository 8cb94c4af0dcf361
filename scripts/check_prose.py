#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fail if a line of Markdown prose has more than 100 columns.

Usage: scripts/check_prose.py [ROOT]

Tables, code and lines with a URL may be longer.
"""
import re
import sys

import tree

COLUMNS = 100
FENCE = re.compile(r"\s*(```|~~~)")
ITEM = re.compile(r"\s*([-*+]|\d+[.)])\s")


def prose(text):
    """(number, line) of all lines except tables and code."""
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


def long_lines(text):
    return [number for number, line in prose(text) if len(line) > COLUMNS and "://" not in line]


def complaints(root):
    for page, rel in tree.with_suffix((".md",), root):
        numbers = long_lines(page.read_text(encoding="utf-8"))
        if numbers:
            yield f"{rel}:{numbers[0]}: more than {COLUMNS} columns, as {len(numbers) - 1} more lines"


def main():
    found = list(complaints(sys.argv[1] if len(sys.argv) > 1 else tree.ROOT))
    print("\n".join(found) or "Markdown is wrapped")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
