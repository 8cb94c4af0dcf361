#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fail if a header does not say who owns its objects, or which threads may use it.

Usage: scripts/check_headers.py [ROOT]

The opening comment of a header with a struct or a function has a line 'Threading  ...' (in
libkiln's public headers: 'Threads'). It has a line 'Ownership  ...' if a function of the header
returns or destroys an object. Such a topic begins its line. Headers of tests/ and kernels/ are
exempt.
"""
import re
import sys

import tree

DIRECTORIES = ("cli/", "common/", "daemon/", "engine/", "libclient/")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
OPENING = re.compile(r"\A/\* SPDX[^\n]*\n(?:#[^\n]*\n)*\s*(/\*.*?\*/)", re.S)
STRUCT = re.compile(r"^struct \w+ \{", re.M)
FUNCTION = re.compile(r"^[A-Za-z_][\w\s*()]*?\b\w+\([^;{]*\)\s*[;{]", re.M)
OBJECTS = re.compile(r"\*\*ret_|_(create|destroy|open|close|done|release|ref|unref)\(")
TOPIC = re.compile(r"^ \* (Role|Ownership|Threading|Threads)\s+\S", re.M)
HIDDEN_TOPIC = re.compile(r"^ \*.*\S (Role|Ownership|Threading|Threads)  +\S", re.M)


def without_lines_of_the_preprocessor(text):
    return re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*\n", "", text, flags=re.M)


def missing(text):
    """Returns what the opening comment of a header with |text| lacks."""
    found = OPENING.match(text)
    opening = found[1] if found else ""
    code = without_lines_of_the_preprocessor(COMMENT.sub("", text))
    topics = set(TOPIC.findall(opening))
    if HIDDEN_TOPIC.search(opening):
        yield "a topic that is not at the beginning of its line"
    if not topics & {"Threading", "Threads"} and (STRUCT.search(code) or FUNCTION.search(code)):
        yield "no line 'Threading'"
    if "Ownership" not in topics and OBJECTS.search(code):
        yield "no line 'Ownership'"


def complaints(root):
    for path, rel in tree.with_suffix((".h",), root):
        if rel.startswith(DIRECTORIES):
            for what in missing(path.read_text(encoding="utf-8")):
                yield f"{rel}: {what} in the opening comment"


def main():
    found = list(complaints(sys.argv[1] if len(sys.argv) > 1 else tree.ROOT))
    print("\n".join(found) or "every header says who owns its objects, and which threads may use "
          "it")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
