# SPDX-License-Identifier: MIT
"""Tests that messages that send the reader to kilnd's log say how to read it."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ("cli", "common", "daemon", "db", "engine", "libclient")
TO_THE_LOG = re.compile(r"(see|in|read) (the|its|kilnd's) log\b(?! of)|\blog says\b")


def literals(text):
    """Yields the string literals of C source; adjacent literals are joined."""
    for run in re.findall(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', text):
        yield re.sub(r'"\s*"', "", run)[1:-1]


def vague(text):
    return [s for s in literals(text) if TO_THE_LOG.search(s) and "journalctl" not in s]


class Messages(unittest.TestCase):
    def test_a_message_without_the_command_is_found(self):
        self.assertEqual(vague('x = "it failed: "\n    "see the log";'), ["it failed: see the log"])
        self.assertEqual(vague('"see its log: journalctl -u kilnd"'), [])

    def test_every_message_has_the_command(self):
        for directory in SOURCES:
            for path in (ROOT / directory).rglob("*.c"):
                found = vague(path.read_text(encoding="utf-8"))
                self.assertEqual(found, [], path)


if __name__ == "__main__":
    unittest.main()
