#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of the table that scripts/test-faults prints."""
import importlib.machinery
import importlib.util
import json
import pathlib
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/test-faults"


def load():
    loader = importlib.machinery.SourceFileLoader("test_faults", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("test_faults", loader))
    loader.exec_module(module)
    return module


def row(operation, fault, tried, lost=0, every=1):
    return {"operation": operation, "fault": fault, "every": every, "tried": tried,
            "survived": tried - lost, "lost": lost, "passed": True}


class Strides(unittest.TestCase):
    def test_runs_begin_at_different_places_and_a_seed_repeats_one(self):
        script = load()
        program = pathlib.Path("engine_faults")
        chosen = [script.parse([]).seed for _ in range(20)]
        self.assertGreater(len(set(chosen)), 1)
        command = script.command_of(program, "store-put", script.parse(["--seed", "7"]))
        self.assertEqual(command[command.index("--seed") + 1], "7")


class Table(unittest.TestCase):
    def setUp(self):
        self.script = load()

    def test_the_table_sums_faults_by_column_and_operations_in_the_last_row(self):
        lines = self.script.table([row("a", "memory", 3), row("a", "map", 4, lost=1, every=5),
                                   row("b", "kill", 10)]).splitlines()
        self.assertEqual(lines[0], "| operation | memory | kill -9 | tried | survived | lost | "
                         "every |")
        self.assertEqual(lines[2], "| `a` | 7 | - | 7 | 6 | 1 | 1, 5 |")
        self.assertEqual(lines[3], "| `b` | - | 10 | 10 | 10 | 0 | 1 |")
        self.assertEqual(lines[4], "| **all** | 7 | 10 | 17 | 16 | 1 |  |")

    def test_every_fault_kind_belongs_to_one_column(self):
        source = (SCRIPT.parent.parent / "tests/faults/cases.c").read_text(encoding="utf-8")
        faults = [line.split('"')[1] for line in source.splitlines() if "] = { \"" in line]
        faults.append("interrupted")  # its row takes several lines
        columns = [fault for faults in self.script.COLUMNS.values() for fault in faults]
        self.assertEqual(sorted(set(faults)), sorted(columns))

    def test_strides_are_reported_for_the_faults_tried(self):
        rows = [row("a", "kill", 2, every=5), row("a", "step", 9), row("a", "sync", 0, every=7)]
        self.assertEqual(self.script.strides(rows), "5")

    def test_a_run_that_a_limit_ended_is_marked(self):
        rows = [row("a", "memory", 2), {**row("a", "memory-on", 3), "passed": False}]
        self.assertEqual(self.script.strides(rows), "1+")

    def test_kilnd_has_separate_strides(self):
        options = self.script.parse(["--seed", "7", "--every", "5", "--memory-every", "300",
                                     "--daemon-every", "13", "--daemon-most", "2"])
        engine = self.script.command_of(pathlib.Path("engine_faults"), "a", options)
        daemon = self.script.command_of(pathlib.Path("daemon_faults"), "b", options)
        self.assertEqual(engine[1:], ["--go-on", "--every", "5", "--seed", "7", "--only", "a",
                                      "--memory-every", "300"])
        self.assertEqual(daemon[1:], ["--go-on", "--every", "13", "--seed", "7", "--only", "b",
                                      "--most", "2"])

    def test_a_pattern_selects_only_cases_that_an_operation_has(self):
        with tempfile.TemporaryDirectory() as directory:
            program = pathlib.Path(directory) / "program"
            program.write_text("#!/bin/sh\nprintf 'a:kill\\na:sync\\nb:kill\\n'\n",
                               encoding="utf-8")
            program.chmod(0o700)
            only = self.script.parse(["--only", ":sync"])
            self.assertEqual(self.script.operations_of(program, only), ["a:sync"])
            every = self.script.parse([])
            self.assertEqual(self.script.operations_of(program, every), ["a", "b"])

    def test_the_table_changes_only_text_between_its_marks(self):
        with tempfile.TemporaryDirectory() as directory:
            page = pathlib.Path(directory) / "page.md"
            page.write_text("above\n<!-- x: begin -->\nold\n<!-- x: end -->\nbelow\n",
                            encoding="utf-8")
            self.script.fill_table(page, "x", [row("a", "memory", 3)])
            text = page.read_text(encoding="utf-8")
        self.assertTrue(text.startswith("above\n<!-- x: begin -->\n| operation"))
        self.assertTrue(text.endswith("|\n<!-- x: end -->\nbelow\n"))
        self.assertNotIn("old", text)

    def test_each_result_is_kept_when_it_is_known(self):
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory) / "results.json"
            options = self.script.parse(["--json", str(file)])
            for tried in (3, 9):
                self.script.note_result(row(f"of {tried}", "memory", tried), options)
            self.assertEqual([r["tried"] for r in self.script.read_results([file])], [3, 9])

    def test_the_later_of_two_fault_runs_counts(self):
        with tempfile.TemporaryDirectory() as directory:
            files = []
            for tried in (3, 9):
                files.append(pathlib.Path(directory) / f"{tried}.json")
                files[-1].write_text(json.dumps(row("a", "memory", tried)) + "\n", encoding="utf-8")
            self.assertEqual([r["tried"] for r in self.script.read_results(files)], [9])


if __name__ == "__main__":
    unittest.main()
