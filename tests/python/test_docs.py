# SPDX-License-Identifier: MIT
"""Tests that the examples of docs/python.md work as shown, and that its table of errors is
complete."""
import doctest
import re

import kiln
from conftest import SOURCE

PAGE = SOURCE / "docs/python.md"


def test_the_examples_of_the_python_docs_run(daemon, compiler, monkeypatch):
    monkeypatch.setenv("KILN_SOCKET", daemon.socket)
    result = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert result.attempted > 20 and result.failed == 0


def test_the_error_table_of_the_docs_names_every_class():
    rows = re.findall(r"^\| ([A-Z_]+) \| `(\w+)`", PAGE.read_text(), re.MULTILINE)
    assert [code for code, _ in rows] == [code.name for code in kiln.ErrorCode if code]
    for code, name in rows:
        error = kiln.errors.error_of(kiln.ErrorCode[code], "")
        assert type(error) is getattr(kiln, name)
