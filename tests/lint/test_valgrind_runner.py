# SPDX-License-Identifier: MIT
"""Tests that scripts/test-valgrind ends every process that a test started, however the test ended.
"""
import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Shell code that starts a process in another process group, prints its pid, and runs |rest|.
LEAVES_ONE = "setsid sleep 600 & echo $! ; {rest}"


def script():
    loader = importlib.machinery.SourceFileLoader("test_valgrind",
                                                  str(ROOT / "scripts/test-valgrind"))
    spec = importlib.util.spec_from_loader("test_valgrind", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class Patient(subprocess.Popen):
    """A process whose time limit begins when two of its children run sleep."""

    def communicate(self, *arguments, **options):
        children = pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children")
        while [name_of(pid) for pid in children.read_text().split()] != ["sleep", "sleep"]:
            time.sleep(0.01)
        return super().communicate(*arguments, **options)


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # the process has ended
        return ""


def run_in_child(shell, seconds, process="subprocess.Popen"):
    """Returns the result of run_program for |shell|, in a separate process: (output, status, left
    running)."""
    program = (f"import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\n"
               "import test_valgrind_runner, subprocess\n"
               "module = test_valgrind_runner.script()\n"
               "module.GRACE = 0\n"
               "module.become_subreaper()\n"
               f"subprocess.Popen = {process}\n"
               f"status, left = module.run_program(['sh', '-c', {shell!r}], sys.stdout, "
               f"{seconds})\n"
               "print(repr(status), left)")
    ran = subprocess.run([sys.executable, "-B", "-c", program], check=True, stdout=subprocess.PIPE,
                         text=True, timeout=60).stdout.splitlines()
    return int(ran[0]), ran[1]


def runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Leftovers(unittest.TestCase):
    def test_a_process_left_by_a_timed_out_test_is_ended(self):
        pid, said = run_in_child(LEAVES_ONE.format(rest="sleep 600"), 0.1,
                                 "test_valgrind_runner.Patient")
        self.assertFalse(runs(pid))
        self.assertIn("time was up", said)
        self.assertIn(f"sleep ({pid})", said)

    def test_a_process_left_by_a_passing_test_is_ended_and_named(self):
        pid, said = run_in_child(LEAVES_ONE.format(rest="exit 0"), 60)
        self.assertFalse(runs(pid))
        self.assertIn("0 [", said)
        self.assertIn(f"({pid})", said)

    def test_a_pattern_selects_no_excluded_test(self):
        module = script()
        there = {"limits": None, "work": None, "unit.daemon.pool": None, "unit.daemon.tally": None}
        self.assertEqual(module.choose(there, []), ["limits"])
        self.assertEqual(module.choose(there, ["unit.*"]), ["unit.daemon.tally"])
        self.assertEqual(module.choose(there, ["work"]), ["work"])
        with self.assertRaises(SystemExit):
            module.choose(there, ["unit.engine.*"])


if __name__ == "__main__":
    unittest.main()
