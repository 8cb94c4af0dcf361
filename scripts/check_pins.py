#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fail if a test pins an English sentence.

Usage: scripts/check_pins.py [ROOT]

Rewording a message does not change behaviour. Therefore a test asserts the code, and with
assert_says one key word or datum: a path, a number, a setting's name. This check finds literals of
assert_says that have four English words in a row.
"""
import re
import sys

import tree

CALL = re.compile(r"\bassert_says\((?:[^;\"]|\"(?:[^\"\\]|\\.)*\")*;")
LITERALS = re.compile(r"(?:\"(?:[^\"\\]|\\.)*\"\s*)+")
SENTENCE = re.compile(r"(?:[A-Za-z][a-z]*[,;:]? ){3}[A-Za-z][a-z]+")


def pins(text):
    """(line, literal) of every pinned sentence."""
    for call in CALL.finditer(text):
        for literals in LITERALS.findall(call.group()):
            literal = re.sub(r"\"\s*\"", "", literals.strip())
            if SENTENCE.search(literal):
                yield text.count("\n", 0, call.start()) + 1, literal


def complaints(root):
    return [f"{rel}:{line}: {literal} is a sentence: assert the code and one key word of it"
            for path, rel in tree.with_suffix((".c",), root)
            if rel.startswith("tests/")
            for line, literal in pins(path.read_text(encoding="utf-8"))]


def main():
    found = complaints(sys.argv[1] if len(sys.argv) > 1 else tree.ROOT)
    print("\n".join(found) or "no test pins a sentence")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
