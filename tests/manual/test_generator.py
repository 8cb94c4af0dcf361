# SPDX-License-Identifier: MIT
"""Tests of the generators of manual pages and completions (scripts/manual/)."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts/manual"))
import headers  # noqa: E402  pylint: disable=wrong-import-position
import roff  # noqa: E402  pylint: disable=wrong-import-position
import texts  # noqa: E402  pylint: disable=wrong-import-position
import values  # noqa: E402  pylint: disable=wrong-import-position

HEADER = '''/* SPDX-License-Identifier: MIT */
#ifndef KILN_TOY_H
#define KILN_TOY_H

/*
 * Toys: for tests.
 *
 * Ownership  a toy is
 *            the caller's
 * Threads    none
 */
#pragma GCC visibility push(default)

struct kiln_toy;
enum { KILN_TOY_SMALL, KILN_TOY_LARGE };
struct kiln_toy_options {
    size_t size; /* sizeof; {} */
};
/* Called; once. */
typedef int kiln_toy_told(void *context);

/* Makes a toy of |size|. */
int kiln_toy_create(const struct kiln_toy_options *options, struct kiln_toy **ret_toy,
                    struct kiln_error *err);
void kiln_toy_destroy(struct kiln_toy *toy); /* accepts NULL */

int kiln_toy_size(const struct kiln_toy *toy);
#pragma GCC visibility pop
#endif
'''


class RoffTest(unittest.TestCase):
    def test_nothing_in_a_text_is_a_request_or_an_escape(self):
        self.assertEqual(roff.filled(".SH 'x"), "\\&.SH 'x")
        self.assertEqual(roff.filled("'x"), "\\&'x")
        self.assertEqual(roff.filled("a\\fBb --c"), "a\\efBb \\-\\-c")

    def test_marks_become_fonts(self):
        self.assertEqual(roff.inline("see `gc --to` and kilnd(8)"),
                         "see \\fBgc \\-\\-to\\fR and \\fBkilnd\\fR(8)")

    def test_only_names_are_marked_as_names(self):
        self.assertEqual(roff.inline("|err| says", names=True), "\\fIerr\\fR says")
        self.assertEqual(roff.inline("system|host|user"), "system|host|user")

    def test_blocks_are_paragraphs_drawings_or_tagged_paragraphs(self):
        made = roff.blocks("one\n\n    two\n\nthree\n: four")
        self.assertEqual(made, ".PP\none\n.PP\n.in +4n\n.nf\ntwo\n.fi\n.in\n.TP\nthree\nFour.")

    def test_sections_come_in_the_usual_order(self):
        page = roff.Page("x", 1, "is x")
        for heading in ("SEE ALSO", "ODD", "DESCRIPTION", "SYNOPSIS"):
            page.add(heading, ".PP\ntext")
        text = page.text("2026-01-01", "1.0")
        order = [line[4:] for line in text.splitlines() if line.startswith(".SH")]
        self.assertEqual(order, ["NAME", "SYNOPSIS", "DESCRIPTION", "ODD", '"SEE ALSO"'])


class HeadersTest(unittest.TestCase):
    def setUp(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "toy.h"
            path.write_text(HEADER)
            self.header = headers.Header(path)
        self.functions = {i.function: i for i in self.header.items if i.function}

    def test_the_opening_comment_has_topics(self):
        before, topics = self.header.topics()
        self.assertEqual(before.strip(), "Toys: for tests.")
        self.assertEqual(topics, [("Ownership", "a toy is the caller's"), ("Threads", "none")])

    def test_comments_belong_to_the_declaration_below(self):
        create, destroy = self.functions["kiln_toy_create"], self.functions["kiln_toy_destroy"]
        self.assertEqual((create.above, create.is_shared), ("Makes a toy of |size|.", False))
        self.assertEqual((destroy.above, destroy.is_shared), ("Makes a toy of |size|.", True))
        self.assertEqual(destroy.behind, "accepts NULL")
        self.assertEqual(self.functions["kiln_toy_size"].above, "")

    def test_kinds_of_declarations_are_distinguished(self):
        self.assertEqual(len(self.functions), 3)
        self.assertEqual([i.struct for i in self.header.items if i.struct], ["kiln_toy_options"])
        self.assertEqual([i.callback for i in self.header.items if i.callback], ["kiln_toy_told"])
        self.assertEqual([i.constants for i in self.header.items if i.constants],
                         [["KILN_TOY_SMALL", "KILN_TOY_LARGE"]])

    def test_a_function_that_may_fail_is_recognized(self):
        self.assertTrue(self.functions["kiln_toy_create"].is_fallible())
        self.assertFalse(self.functions["kiln_toy_size"].is_fallible())


class TextsTest(unittest.TestCase):
    def read(self, text):
        with tempfile.TemporaryDirectory() as directory:
            (pathlib.Path(directory) / "a.txt").write_text(text)
            return texts.read(pathlib.Path(directory))

    def test_a_file_has_parts_of_several_pages(self):
        parts = self.read("page a(1): is a\n\n## NOTES\n\nx\n\npage b-c(3)\n\n## NOTES\n\ny\n")
        self.assertEqual(parts["a", 1].summary, "is a")
        self.assertEqual(parts["b-c", 3].sections, [("NOTES", "\ny")])

    def test_text_outside_of_a_section_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "a.txt:2: text before"):
            self.read("page a(1)\nlost\n")

    def test_a_duplicate_page_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "twice"):
            self.read("page a(1)\n## X\npage a(1)\n")


class ValuesTest(unittest.TestCase):
    def kind(self, value, name="any", kind="text"):
        return values.of_option("some command", {"name": name, "value": value, "kind": kind})

    def test_a_value_is_completed_by_its_name(self):
        self.assertEqual(self.kind("FILE.html"), "file")
        self.assertEqual(self.kind("FILE|DIRECTORY|URL..."), "file")
        self.assertEqual(self.kind("find|perf"), "word find perf")
        self.assertEqual(self.kind("HIP|CUDA|OpenCL"), "word HIP CUDA OpenCL")
        self.assertEqual(self.kind("NAME", name="toolchain"), "toolchain")
        self.assertEqual(self.kind("X", kind="number"), "none")
        self.assertEqual(self.kind("", kind="flag"), "")

    def test_a_value_of_an_unknown_name_is_reported(self):
        self.assertIsNone(self.kind("WHEREVER"))


class DateTest(unittest.TestCase):
    def test_the_date_is_that_of_the_release(self):
        code = ("import sys; sys.path.insert(0, sys.argv[1]); import generate, pathlib;"
                "print(generate.date_of(pathlib.Path(sys.argv[1])))")
        done = subprocess.run([sys.executable, "-B", "-c", code, str(ROOT / "scripts/manual")],
                              env={**os.environ, "SOURCE_DATE_EPOCH": "86400"}, check=True,
                              text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.stdout.strip(), "1970-01-02")


if __name__ == "__main__":
    unittest.main()
