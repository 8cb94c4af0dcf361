# SPDX-License-Identifier: MIT
"""Each promise and each attack in docs/ names tests, and those tests exist."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"

# The name of a test case: three words or more; "..." may replace some of them.
CASE = re.compile(r"[a-z0-9]+(_(\.\.\.|[a-z0-9]+)){2,}|without_\.\.\.")
# A test as ctest has it: unit.daemon.pool.
TEST = re.compile(r"[a-z]+(\.[a-z_0-9]+)+")
# An operation or a fault of tests/faults: tuning-*, kill.
OPERATION = re.compile(r"[a-z]+(-[a-z]+)*(-\*)?")


def rows(text, last_column):
    """(line, last cell) of the tables whose last column has that heading."""
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if cells[-1].strip(" |") == last_column:
            inside = True
        elif inside and not set(line) <= set("|-: "):
            yield line, cells[-1].strip(" |")


class Sources:
    """The names of the tests, read once."""

    def __init__(self, tests):
        self.tests = tests
        self.text = {path: path.read_text(encoding="utf-8") for path in tests.rglob("*.c")}
        self.cmake = "\n".join(path.read_text(encoding="utf-8") for path in tests.rglob("CMakeLists.txt"))
        self.all = "\n".join(self.text.values())
        attacks = re.search(r"set\(KILN_ATTACKS\s([^)]*)\)", self.cmake)
        self.attacks = {f"attack.{name}" for name in attacks[1].split()} if attacks else set()
        self.cases = set(re.findall(r"^TEST(?:_F)?\(\w+, (\w+)\)", self.all, re.M))

    def has_case(self, name):
        pattern = re.compile(re.escape(name).replace(re.escape("..."), r"\w+") + (r"\w*" if "..." in name else ""))
        return any(map(pattern.fullmatch, self.cases))

    def has_test(self, name):
        """Whether it is a test that CMake makes from a file (kiln_test), one that CMake names, or
        an attack."""
        file = self.tests.joinpath(*name.split(".")).with_suffix(".c")
        return (file in self.text or name in self.attacks
                or re.search(rf"NAME {re.escape(name)}\s", self.cmake) is not None)

    def has_file(self, name):
        return any(str(path).endswith("/" + name.lstrip("/")) for path in self.text)

    def has_operation(self, name):
        return f'"{name.rstrip("*")}' in self.all

    def lacks(self, cell):
        """The names in a cell that no test has; None if the cell names no test."""
        words = [word.rstrip(":") for word in re.findall(r"`([^`]+)`", cell)]
        judged = [word for word in words if self.knows_how(word)]
        if not judged:
            return None
        return [word for word in judged if not self.has(word)]

    @staticmethod
    def knows_how(word):
        return any(form.fullmatch(word) for form in (CASE, TEST, OPERATION)) or word.endswith(".c")

    def has(self, word):
        if word.endswith(".c"):
            return self.has_file(word)
        if TEST.fullmatch(word):
            return self.has_test(word)
        if CASE.fullmatch(word):
            return self.has_case(word)
        return self.has_operation(word)


class Promises(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sources = Sources(TESTS)

    def look_at(self, document, last_column, least, points_up=()):
        found = list(rows((ROOT / document).read_text(encoding="utf-8"), last_column))
        self.assertGreaterEqual(len(found), least)
        for line, cell in found:
            if cell in points_up:
                continue
            lacking = self.sources.lacks(cell)
            self.assertIsNotNone(lacking, f"{document}: no test is named by: {line}")
            self.assertEqual(lacking, [], f"{document}: there is no such test: {line}")

    def test_every_promise_names_tests_that_exist(self):
        self.look_at("docs/reliability.md", "shown by", 20)

    def test_every_attack_names_tests_that_exist(self):
        self.look_at("docs/security.md", "test", 40, points_up=("the same two",))

    def test_a_missing_test_name_is_reported(self):
        for cell in ("`unit.daemon.nosuch`", "`a_case_that_nobody_wrote`", "`nosuch.c`", "`nosuch-*`",
                     "`faults.nosuch`"):
            self.assertTrue(self.sources.lacks(cell), cell)
        self.assertIsNone(self.sources.lacks("see below"))
        for cell in ("`unit.daemon.pool`: `the_pool_recovers_when_workers_start_again`", "`load.soak`",
                     "A `records_..._capacity_for_others`", "U`/daemon/peer.c`", "`store-*`"):
            self.assertEqual(self.sources.lacks(cell), [], cell)


if __name__ == "__main__":
    unittest.main()
