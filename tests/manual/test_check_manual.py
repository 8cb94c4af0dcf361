# SPDX-License-Identifier: MIT
"""Breaks in a copy everything that check_manual.py checks, and tests that it complains.

Usage: test_check_manual.py BIN MANUAL
"""
import pathlib
import shutil
import sys
import tempfile
import unittest

import check_manual

BIN, MANUAL = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])


class CheckManualTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="kiln-manual-"))
        shutil.copytree(MANUAL / "man", self.directory / "man")
        shutil.copytree(MANUAL / "completions", self.directory / "completions")
        shutil.copy(MANUAL / "tables.json", self.directory)

    def tearDown(self):
        shutil.rmtree(self.directory)

    def edit(self, path, old, new):
        path = self.directory / path
        text = path.read_text()
        self.assertIn(old, text)
        path.write_text(text.replace(old, new))

    def complaints(self, check, *arguments):
        return list(check(check_manual.Manual(BIN, self.directory), *arguments))

    def assert_says(self, complaints, *words):
        self.assertTrue(any(all(w in c for w in words) for c in complaints), complaints)

    def test_a_command_without_a_page_is_found(self):
        (self.directory / "man/man1/kilnctl-gc.1").unlink()
        self.assert_says(self.complaints(check_manual.check_kilnctl), "kilnctl gc", "no page")

    def test_a_page_without_a_command_is_found(self):
        page = self.directory / "man/man1/kilnctl-gc.1"
        shutil.copy(page, page.with_name("kilnctl-gone.1"))
        self.assert_says(self.complaints(check_manual.check_kilnctl), "kilnctl-gone.1",
                         "no command")

    def test_an_option_that_a_page_lacks_is_found(self):
        self.edit("man/man1/kilnctl-gc.1", "\\-\\-stale\\fR", "\\-\\-stael\\fR")
        found = self.complaints(check_manual.check_kilnctl)
        self.assert_says(found, "kilnctl gc: --stale", "not in kilnctl-gc.1")
        self.assert_says(found, "kilnctl gc: --stael", "not in --help")

    def test_an_option_that_bash_lacks_is_found(self):
        self.edit("completions/bash/kilnctl", "--stale", "--stael")
        self.assert_says(self.complaints(check_manual.check_kilnctl), "--stale", "bash")

    def test_an_option_that_zsh_lacks_is_found(self):
        self.edit("completions/zsh/_kilnctl", "--stale[", "--stael[")
        self.assert_says(self.complaints(check_manual.check_kilnctl), "--stale", "zsh")

    def test_an_option_of_every_command_that_zsh_lacks_is_found(self):
        self.edit("completions/zsh/_kilnctl", "--socket=[", "--sokcet=[")
        self.assert_says(self.complaints(check_manual.check_kilnctl), "gc: --socket", "zsh")

    def test_a_flag_of_the_driver_that_its_page_lacks_is_found(self):
        self.edit("man/man1/kiln-driver.1", "\\-\\-batchsize", "\\-\\-batch")
        self.assert_says(self.complaints(check_manual.check_driver), "--batchsize", "kiln-driver.1")

    def test_a_setting_that_a_page_lacks_is_found(self):
        self.edit("man/man5/kilnd.json.5", "\\fBhot_limit\\fR (", "\\fBhot_limits\\fR (")
        self.assert_says(self.complaints(check_manual.check_kilnd), "hot_limit ", "kilnd.json.5")

    def test_a_function_without_a_page_is_found(self):
        functions = check_manual.exported(check_manual.ROOT / "libclient/exports.map")
        self.assertGreater(len(functions), 100)
        (self.directory / "man/man3/kiln_version.3").unlink()
        self.assert_says(self.complaints(check_manual.check_library, functions), "kiln_version")

    def test_a_page_of_a_removed_function_is_found(self):
        self.assert_says(self.complaints(check_manual.check_library, set()), "no such function")

    def test_a_page_with_an_empty_name_section_is_found(self):
        self.edit("man/man3/kiln_version.3", "get the version of libkiln", "")
        self.assert_says(self.complaints(check_manual.check_library, {"kiln_version"}), "NAME")

    def test_a_description_that_refers_to_another_page_is_found(self):
        self.edit("man/man3/kiln_stream_finish.3", "Waits for all work", "The same for all work")
        self.assert_says(self.complaints(check_manual.check_library, {"kiln_stream_finish"}),
                         "kiln_stream_finish.3", "'The same'")

    def test_a_reference_to_a_missing_page_is_found(self):
        self.edit("man/man7/kiln.7", "\\fBkilnd\\fR(8)", "\\fBkilnd\\fR(1)")
        self.assert_says(self.complaints(check_manual.check_references), "kiln.7", "kilnd(1)")

    def test_an_example_with_an_unknown_option_is_found(self):
        self.edit("man/man1/kilnctl-gc.1", "kilnctl gc \\-\\-to", "kilnctl gc \\-\\-too")
        self.assert_says(self.complaints(check_manual.check_examples), "kilnctl-gc.1", "--too")

    def test_an_example_of_an_unknown_command_is_found(self):
        self.edit("man/man1/kilnctl-gc.1", "kilnctl gc \\-\\-to", "kilnctl cg \\-\\-to")
        self.assert_says(self.complaints(check_manual.check_examples), "no such command")

    def test_a_value_that_completions_do_not_know_is_found(self):
        self.edit("tables.json", '"DIR"', '"WHEREVER"')
        self.assert_says(self.complaints(check_manual.check_values), "WHEREVER")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
