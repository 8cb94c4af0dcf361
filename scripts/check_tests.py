#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fail if a test pins an English sentence, waits without a bound, or skips without a reason.

Usage: scripts/check_tests.py [ROOT]

A test must not fail because a message was reworded. Therefore it asserts the code and, with
assert_says, one key word of the message: a path, a number, a setting's name. This check finds
string literals with four English words in a row that are arguments of assert_says,
assert_string_equal and strstr or, in Python, of assertIn, assertNotIn and assertEqual. A text that
another literal of the file also contains is not a message of kiln, because the test sends it and
expects it back. Output of several lines may be compared as a whole.

A test that waited for ever could not say what it waited for. In C, await_child, await_thread and
the macros of tests/support/wait.h have a bound; for example, WAIT_FOR(sem_trywait(&s) == 0)
replaces sem_wait. A thread that serves a test calls await_work. In Python, the calls have a
time-out. A script counts the iterations of a loop that waits, and uses scripts/kilnd.sh to start
and end a daemon. The programs that measure in tests/bench and tests/gpu, and the programs that a
static build links, are exempt.

A test that skips reports what this host lacks: SKIP and SKIP_IF of tests/support/test.h.
"""
import ast
import re
import sys

import tree

CALL = re.compile(r"\b(?:assert_says|assert_string_equal|strstr)\((?:[^();\"]|\([^();\"]*\)|"
                  r"\"(?:[^\"\\]|\\.)*\")*\)")
LITERALS = re.compile(r"(?:\"(?:[^\"\\]|\\.)*\"\s*)+")
STRING = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"")
SENTENCE = re.compile(r"(?:[A-Za-z][a-z]*[,;:]? ){3}[A-Za-z][a-z]+")

FREE = ("tests/bench/", "tests/gpu/", "tests/embedded/", "tests/support/wait.",
        "tests/lint/test_lints.py")
SKIPPING = ("tests/gpu/", "tests/support/test", "tests/lint/test_lints.py")
ENDLESS_C = re.compile(r"\b(?:waitpid\([^;]*, "
                       r"0\)|wait\(NULL\)|pthread_join\(|loop_run\(|sem_wait\(|"
                       r"pthread_cond_wait\(|poll\([^;]*, -1\))")
ENDLESS_PYTHON = re.compile(r"\.(?:join|wait|communicate)\(\)")
ENDLESS_SHELL = re.compile(r"^\s*(?:until\b|while (?:true|:)(?:;|$)).*", re.M)
PYTHON_ASSERTS = ("assertIn", "assertNotIn", "assertEqual")
REASONLESS = re.compile(r"^[^#\n]*\bskip\(\);", re.M)
PROGRAM = re.compile(r"\bsubprocess\.(?:run|call|check_call|check_output)\(")


def without_echoes(literal, others):
    """Returns |literal| without the texts that it shares with |others|, the other literals of the
    file."""
    for other in others:
        if len(other) > 5:
            literal = literal.replace(other, "")
    return literal


def pins(text):
    """Yields the line and the literal of every pinned sentence."""
    for call in CALL.finditer(text):
        for literals in LITERALS.findall(call.group()):
            content = re.sub(r"\"\s*\"", "", literals.strip())[1:-1]
            if "\\n" in content[:-2] or not SENTENCE.search(content):
                continue
            others = STRING.findall(text[:call.start()] + text[call.end():])
            if SENTENCE.search(without_echoes(content, others)):
                yield text.count("\n", 0, call.start()) + 1, f'"{content}"'


def python_text(argument):
    """Returns the text of a string literal, with {} for each value of an f-string."""
    parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
    return "".join(p.value if isinstance(p, ast.Constant) and isinstance(p.value, str) else "{}"
                   for p in parts)


def python_pins(text):
    """Yields the line and the literal of every pinned sentence of a Python file."""
    nodes = list(ast.walk(ast.parse(text)))
    asserted = [(n.lineno, argument) for n in nodes
                if isinstance(n, ast.Call) and getattr(n.func, "attr", "") in PYTHON_ASSERTS
                for argument in n.args[:2] if isinstance(argument, (ast.Constant, ast.JoinedStr))]
    theirs = [part for _, argument in asserted for part in ast.walk(argument)]
    others = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)
              and n not in theirs]
    for line, argument in asserted:
        content = python_text(argument)
        if "\n" not in content[:-1] and SENTENCE.search(without_echoes(content, others)):
            yield line, repr(content)


def call_at(text, start):
    """Returns the call whose first parenthesis is the next one after |start|."""
    depth = 0
    for at in range(text.index("(", start), len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return text[start:at + 1]
    return text[start:]


def endless_waits(text, is_python):
    """Yields the line and the call of every wait without a bound."""
    for wait in (ENDLESS_PYTHON if is_python else ENDLESS_C).finditer(text):
        yield text.count("\n", 0, wait.start()) + 1, wait.group()
    for program in PROGRAM.finditer(text) if is_python else ():
        if "timeout=" not in call_at(text, program.start()):
            yield text.count("\n", 0, program.start()) + 1, program.group()


def endless_loops(root):
    """Yields a complaint about every loop of a shell script that may wait without a bound."""
    for path, rel in tree.files(root):
        if not rel.startswith(("scripts/", "tests/", ".ci/")) or path.suffix == ".py" or \
                not tree.is_script(path):
            continue
        text = path.read_text(encoding="utf-8")
        for loop in ENDLESS_SHELL.finditer(text) if "sh\n" in text[:40] else ():
            line = text.count("\n", 0, loop.start()) + 1
            yield f"{rel}:{line}: '{loop.group().strip()}' waits without a bound: count its turns"


def complaints(root):
    yield from endless_loops(root)
    for path, rel in tree.with_suffix((".c", ".h", ".py"), root):
        if not rel.startswith("tests/"):
            continue
        text = path.read_text(encoding="utf-8")
        is_python = path.suffix == ".py"
        for line, literal in (python_pins if is_python else pins)(text):
            yield f"{rel}:{line}: {literal} is a sentence: assert the code and one key word of it"
        for skip in REASONLESS.finditer(text) if not rel.startswith(SKIPPING) else ():
            line = text.count("\n", 0, skip.start()) + 1
            yield f"{rel}:{line}: skip() gives no reason: use SKIP or SKIP_IF"
        if not rel.startswith(FREE):
            for line, wait in endless_waits(text, is_python):
                yield f"{rel}:{line}: '{wait}' waits without a bound: see tests/support/wait.h"


def main():
    found = list(complaints(sys.argv[1] if len(sys.argv) > 1 else tree.ROOT))
    print("\n".join(found) or "no test pins a sentence, waits without a bound or skips without a "
          "reason")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
