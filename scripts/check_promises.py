#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fail if a promise of the documentation names no test, or a test that does not exist.

Usage: check_promises.py BUILD [ROOT]

The promises are the rows of the tables of PAGES whose last column has the heading given there. In
docs/limits.md, every table must have that column. The last cell of a row names tests, as ctest in
the build directory BUILD lists them (`unit.daemon.pool`). It may also name cases of these tests
(`a_worker_does_several_jobs`; "..." stands for some words). In docs/reliability.md, it may instead
name an operation or a fault of tests/faults (`tuning-*`). In the other pages, each section must
name tests, except the sections in WITHOUT_PROMISES. Cases that follow the name of a test in a
sentence must exist, too.
"""
import json
import pathlib
import re
import subprocess
import sys

import tree

PAGES = {"docs/limits.md": "test", "docs/security.md": "test", "docs/reliability.md": "shown by"}
ONLY_PROMISES = {"docs/limits.md"}
WITH_OPERATIONS = {"docs/reliability.md"}
WITHOUT_PROMISES = {"Security", "What is worth attacking", "Who is trusted with what",
                    "What an administrator must do", "Report a vulnerability"}

TEST = re.compile(r"[a-z]+(\.[a-z_0-9]+)+")
CASE = re.compile(r"[a-z0-9]+(_(\.\.\.|[a-z0-9]+)){2,}|without_\.\.\.")
IN_PROSE = re.compile(r"`((?:unit|integration|attack|lint|load)\.[a-z_0-9.]+)`")
CASE_IN_PROSE = re.compile(r"`(unit|integration)(\.[a-z_0-9.]+)`\s+`(\w+)`")
OPERATION = re.compile(r"[a-z]+(-[a-z]+)*(-\*)?")
CASES_C = re.compile(r"^TEST(?:_F)?\(\w+, (\w+)\)", re.M)
CASES_PYTHON = re.compile(r"^    def (test_\w+)\(", re.M)


def tables(text):
    """Returns each table of |text|, as the number of its first line and its lines."""
    found, lines = [], []
    for number, line in enumerate(text.splitlines() + [""], 1):
        if line.startswith("|"):
            lines.append(line)
        elif lines:
            found.append((number - len(lines), lines))
            lines = []
    return found


def last_cell(line):
    return line.strip().removesuffix("|").split(" | ")[-1].strip(" |")


class Tests:
    """The tests of a build, and their cases."""

    def __init__(self, names, root):
        self.names, self.root = set(names), pathlib.Path(root)
        self.text = "\n".join(path.read_text(encoding="utf-8")
                              for path, rel in tree.with_suffix((".c",), root)
                              if rel.startswith("tests/faults/"))
        self.python = {case for path, rel in tree.with_suffix((".py",), root)
                       if rel.startswith("tests/lint/")
                       for case in CASES_PYTHON.findall(path.read_text(encoding="utf-8"))}

    def cases_of(self, name):
        file = self.root.joinpath("tests", *name.split(".")).with_suffix(".c")
        if file.exists():
            return set(CASES_C.findall(file.read_text(encoding="utf-8")))
        return self.python if name == "lint.self" else set()

    def has_operation(self, word):
        return f'"{word.rstrip("*")}' in self.text


def has_case(cases, word):
    pattern = re.escape(word).replace(re.escape("..."), r"\w+")
    return any(re.fullmatch(pattern, case) for case in cases)


def complaints_about(cell, tests, with_operations):
    words = [word.rstrip(":") for word in re.findall(r"`([^`]+)`", cell)]
    named = [word for word in words if TEST.fullmatch(word)]
    operations = [word for word in words if with_operations and OPERATION.fullmatch(word)]
    cases = set().union(*map(tests.cases_of, named))
    if not named and not operations:
        yield "names no test"
    yield from (f"'{name}' is no test of ctest" for name in named if name not in tests.names)
    yield from (f"'{word}' is no test case of {', '.join(named) or 'any test'}" for word in words
                if CASE.fullmatch(word) and not has_case(cases, word))
    yield from (f"'{word}' is no operation or fault of tests/faults" for word in operations
                if not tests.has_operation(word))


def sections(text):
    """Yields each section of |text|, as the number of its first line, its heading and its text."""
    number = 1
    for part in re.split(r"^(?=##? |### )", text, flags=re.M):
        if part:
            yield number, part.splitlines()[0].lstrip("# "), part
        number += part.count("\n")


def complaints_about_sections(page, text, tests):
    for number, heading, part in sections(text):
        named = IN_PROSE.findall(part)
        if not named and heading not in WITHOUT_PROMISES:
            yield f"{page}:{number}: the section '{heading}' names no test"
        yield from (f"{page}:{number}: '{name}' is no test of ctest"
                    for name in named if name not in tests.names)
        prose = "\n".join(line for line in part.splitlines() if not line.startswith("|"))
        for kind, rest, case in CASE_IN_PROSE.findall(prose):
            if case not in tests.cases_of(kind + rest):
                yield f"{page}:{number}: '{case}' is no test case of {kind}{rest}"


def complaints(root, names, pages):
    tests = Tests(names, root)
    for page, heading in pages.items():
        text = (pathlib.Path(root) / page).read_text(encoding="utf-8")
        if page not in WITH_OPERATIONS:
            yield from complaints_about_sections(page, text, tests)
        for first, lines in tables(text):
            if last_cell(lines[0]) != heading:
                if page in ONLY_PROMISES:
                    yield f"{page}:{first}: the last column of this table is not '{heading}'"
                continue
            for number, line in enumerate(lines[2:], first + 2):
                for said in complaints_about(last_cell(line), tests, page in WITH_OPERATIONS):
                    yield f"{page}:{number}: {said}: {line[:60]}"


def ctest_names(build):
    listing = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"],
                             capture_output=True, check=True, timeout=60)
    return [test["name"] for test in json.loads(listing.stdout)["tests"]]


def main():
    root = sys.argv[2] if len(sys.argv) > 2 else tree.ROOT
    found = list(complaints(root, ctest_names(sys.argv[1]), PAGES))
    print("\n".join(found) or "every promise names tests, and they exist")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
