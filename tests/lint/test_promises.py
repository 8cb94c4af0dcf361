# SPDX-License-Identifier: MIT
"""Tests that check_promises reports promises without tests, and names of tests that do not exist.
"""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import check_promises  # noqa: E402

NAMES = ["unit.daemon.pool", "attack.lookups"]
PAGE = "docs/limits.md"
TABLE = ("# Limits\n\nSee `unit.daemon.pool`.\n\n"
         "| what | {head} |\n| --- | --- |\n| a limit | {cell} |\n")


class Promises(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        self.write("tests/unit/daemon/pool.c", "TEST(plain, a_worker_does_several_jobs)\n{\n}\n")
        self.write("tests/faults/operations.c", '{ "tuning-put" }\n')

    def write(self, rel, text):
        path = self.root / rel
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def about(self, cell, page=PAGE, head="test"):
        self.write(page, TABLE.format(head=head, cell=cell))
        return list(check_promises.complaints(self.root, NAMES, {page: "test"}))

    def test_a_row_that_names_an_existing_test_and_its_case_is_accepted(self):
        for cell in ("`attack.lookups`", "`unit.daemon.pool` `a_worker_does_several_jobs`",
                     "`unit.daemon.pool` `a_worker_..._jobs`; `attack.lookups`"):
            self.assertEqual(self.about(cell), [], cell)

    def test_a_row_without_a_test_is_refused(self):
        for cell in ("", "see below", "`workers`", "`a_worker_does_several_jobs`"):
            self.assertTrue(self.about(cell), cell)

    def test_a_test_that_ctest_does_not_have_is_refused(self):
        found = self.about("`unit.daemon.nosuch`; `attack.lookups`")
        self.assertTrue(found)
        self.assertTrue(all("'unit.daemon.nosuch'" in one for one in found))

    def test_a_case_of_another_test_is_refused(self):
        self.assertEqual(len(self.about("`attack.lookups` `a_worker_does_several_jobs`")), 1)
        self.assertEqual(len(self.about("`unit.daemon.pool` `a_case_that_nobody_wrote`")), 1)

    def test_a_table_of_limits_without_a_column_for_tests_is_refused(self):
        self.assertEqual(len(self.about("`attack.lookups`", head="remark")), 1)
        self.assertEqual(self.about("`attack.lookups`", "docs/security.md", head="remark"), [])

    def test_a_section_without_a_test_is_refused(self):
        self.write(PAGE, "# Limits\n\n`unit.daemon.pool`\n\n## Time\n\nNothing takes long.\n")
        found = list(check_promises.complaints(self.root, NAMES, {PAGE: "test"}))
        self.assertEqual(len(found), 1)
        self.assertIn("'Time'", found[0])

    def test_a_case_in_a_sentence_must_exist(self):
        for case, count in (("a_worker_does_several_jobs", 0), ("a_case_that_nobody_wrote", 1)):
            self.write(PAGE, f"# Limits\n\nA worker does jobs (`unit.daemon.pool`\n`{case}`).\n")
            found = list(check_promises.complaints(self.root, NAMES, {PAGE: "test"}))
            self.assertEqual(len(found), count, found)

    def test_operations_are_names_only_where_faults_are_injected(self):
        self.assertEqual(self.about("`tuning-*`", "docs/reliability.md"), [])
        self.assertEqual(len(self.about("`nosuch-*`", "docs/reliability.md")), 1)
        self.assertEqual(len(self.about("`tuning-*`")), 1)


if __name__ == "__main__":
    unittest.main()
