# SPDX-License-Identifier: MIT
"""Tests of the lints: each must report the errors that it exists for."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import check_headers  # noqa: E402
import check_layers  # noqa: E402
import check_prose  # noqa: E402
import check_size  # noqa: E402
import check_spdx  # noqa: E402
import check_tests  # noqa: E402
import gen_metrics  # noqa: E402
import gen_protocol  # noqa: E402
import tree  # noqa: E402


class Tree(unittest.TestCase):
    """A small source tree in a temporary directory."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)

    def write(self, rel, text):
        path = self.root / rel
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def including(self, rel, target):
        """Returns the complaints of check_layers about a file |rel| with one include."""
        self.write(rel, f"#include {target}\n")
        return list(check_layers.complaints(self.root))


class Layers(Tree):
    def test_an_arrow_of_the_architecture_is_allowed(self):
        self.assertEqual(self.including("engine/store/a.c", '"engine/db/db.h"'), [])
        self.assertEqual(self.including("daemon/server/b.c", '"engine/service/service.h"'), [])
        self.assertEqual(self.including("cli/kilnctl/c.c", "<kiln/client.h>"), [])
        self.assertEqual(self.including("cli/kilnctl/d.c", '"common/base/json.h"'), [])

    def test_an_include_against_the_arrows_is_refused(self):
        found = self.including("engine/store/a.c", '"engine/service/service.h"')
        self.assertEqual(len(found), 1)
        self.assertIn("'engine/service/service.h'", found[0])

    def test_the_command_line_may_not_include_databases_or_messages(self):
        self.assertTrue(self.including("cli/kilnctl/a.c", '"engine/engine.h"'))
        self.assertTrue(self.including("cli/kilnctl/a.c", '"common/protocol/frame.h"'))
        self.assertTrue(self.including("cli/kilnctl/a.c", '"engine/miopen/kern_db.h"'))
        self.assertTrue(self.including("cli/kilnctl/a.c", '"engine/package/package.h"'))

    def test_the_compiler_process_may_not_include_the_store(self):
        rel = "daemon/programs/kiln_compiler.c"
        self.assertEqual(self.including(rel, '"engine/compile/worker_wire.h"'), [])
        self.assertTrue(self.including(rel, '"engine/store/object.h"'))

    def test_a_library_may_be_included_only_in_its_directory(self):
        self.assertEqual(self.including("daemon/loop/loop.c", "<uv.h>"), [])
        found = self.including("daemon/server/session.c", "<uv.h>")
        self.assertIn("only daemon/loop may include <uv.h>", found[0])

    def test_the_engine_does_not_use_the_public_headers(self):
        self.assertTrue(self.including("engine/engine.c", "<kiln/kiln.h>"))

    def test_build_directories_are_not_checked(self):
        self.assertEqual(self.including("build/release/engine/a.c", "<uv.h>"), [])


class StaleLayers(Tree):
    def stale(self, table, exceptions_max=5):
        self.write("cli/a.c", '#include "common/used.h"\n')
        self.write("common/used.h", "")
        self.write("common/unused.h", "")
        return list(check_layers.stale(self.root, table, exceptions_max))

    def test_needed_rows_of_the_layer_table_are_accepted(self):
        self.assertEqual(self.stale({"cli": {"common/used.h"}, "common": set()}), [])

    def test_a_stale_row_or_header_of_the_layer_table_is_reported(self):
        self.assertEqual(self.stale({"gone": set()}), ["layer table: 'gone' does not exist"])
        self.assertIn("'common/old.h'", self.stale({"cli": {"common/old.h"}})[0])

    def test_an_unused_header_is_reported(self):
        self.assertEqual(self.stale({"cli": {"common/unused.h"}}),
                         ["layer table: no file of 'cli' includes 'common/unused.h'"])

    def test_an_unused_directory_is_reported(self):
        self.write("daemon/a.c", "")
        self.assertEqual(self.stale({"daemon": {"common"}}),
                         ["layer table: no file of 'daemon' includes 'common'"])

    def test_a_place_that_no_longer_includes_its_library_is_reported(self):
        self.write("daemon/loop/a.c", "#include <uv.h>\n")
        owners = {"uv.h": ("daemon/loop", "cli")}
        self.assertEqual(list(check_layers.stale_owners(self.root, owners)),
                         ["library table: no file of 'cli' includes <uv.h>"])

    def test_more_exceptions_than_allowed_are_reported(self):
        table = {"cli": {"common/used.h"}, "cli/a.c": set()}
        self.assertEqual(self.stale(table, 2), [])
        self.assertEqual(self.stale(table, 1), [
            "layer table: 2 single files and headers, but EXCEPTIONS_MAX is 1"])

    def test_a_header_counts_once_for_a_directory_and_its_subdirectories(self):
        table = {"cli": {"common/used.h"}, "cli/manual": {"common/used.h"},
                 "daemon": {"common/used.h"}, "engine": {"common"}}
        self.assertEqual(check_layers.count_exceptions(table), 2)


class Files(Tree):
    def names(self):
        return [rel for _, rel in tree.files(self.root)]

    def test_a_directory_that_is_no_checkout_is_walked(self):
        self.write("a/b.c", "")
        self.write("build/c.c", "")
        self.assertEqual(self.names(), ["a/b.c"])

    @unittest.skipUnless(shutil.which("git"), "git is not installed")
    def test_files_ignored_by_git_are_not_checked(self):
        subprocess.run(["git", "init", "-q", self.root], check=True, timeout=60)
        self.write(".gitignore", "/scratch/\n")
        self.write("scratch/a.c", "")
        self.write("new.c", "")
        self.write("gone.c", "")
        subprocess.run(["git", "-C", self.root, "add", "gone.c"], check=True, timeout=60)
        (self.root / "gone.c").unlink()
        self.assertEqual(self.names(), [".gitignore", "new.c"])


class Licence(Tree):
    def test_a_source_without_the_licence_line_is_named(self):
        self.write("common/a.c", "int a;\n")
        self.write("common/b.c", "/* SPDX-License-Identifier: MIT */\n")
        self.write("scripts/c", "#!/bin/sh\n# SPDX-License-Identifier: MIT\n")
        self.write("notes.txt", "no licence asked for\n")
        found = list(check_spdx.complaints(self.root))
        self.assertEqual([line.split(":")[0] for line in found], ["common/a.c"])


@unittest.skipUnless(check_size.shutil.which("ctags"), "ctags is absent")
class Size(Tree):
    def test_functions_are_measured_from_name_to_closing_brace(self):
        body = "    work();\n" * 90
        self.write("common/a.c", f"void work(void);\nvoid long_one(void)\n{{\n{body}}}\n")
        sizes = check_size.function_sizes(check_size.read_tags(self.root))
        self.assertEqual(sizes, [(93, "common/a.c:2 long_one")])

    def test_a_must_check_attribute_does_not_hide_a_function(self):
        self.write("common/a.c", "KILN_MUST_CHECK enum kiln_code f(int a)\n{\n    return a;\n}\n")
        sizes = check_size.function_sizes(check_size.read_tags(self.root))
        self.assertEqual([name for _, name in sizes], ["common/a.c:1 f"])

    def parameters(self, text):
        """Returns the complaints about a file with |text|."""
        self.write("common/a.c", text)
        return list(check_size.too_many_parameters(check_size.read_tags(self.root)))

    def test_a_function_may_have_five_parameters(self):
        five = "int f(int a, int b, int c, int d, void (*e)(int, int))\n{\n    return 0;\n}\n"
        self.assertEqual(self.parameters(five), [])
        self.assertEqual(self.parameters("int f(void)\n{\n    return 0;\n}\n"), [])

    def test_a_sixth_parameter_is_refused(self):
        six = "int f(int a, int b, int c, int d, int e, int g)\n{\n    return 0;\n}\n"
        self.assertIn("common/a.c:1 f has 6 parameters", self.parameters(six)[0])

    def test_a_sixth_parameter_of_a_prototype_is_refused(self):
        for end in ("const char *e, int g);", "const char *e, ...) KILN_PRINTF(5, 6);",
                    "const char *e, ...) CLI_PRINTF(5, 6);"):
            six = "KILN_MUST_CHECK int f(int a, int b, int c, int d, " + end + "\n"
            self.assertIn("f has 6 parameters", self.parameters(six)[0], end)
            self.assertEqual(self.parameters(six.replace("int a, ", "")), [], end)

    def test_a_sixth_parameter_of_a_pointer_to_a_function_is_refused(self):
        six = "(int a, int b, struct c *c, int, int, ...)"
        for name, text in (
                ("ops.f", "struct ops {\n    int (*f)SIX;\n};\n"),
                ("ops.f", "struct ops {\n    enum kiln_code (*f)SIX;\n};\n"),
                ("f", "static struct a *(*f)SIX;\n"), ("f", "extern int (*f)SIX;\n"),
                ("f", "typedef int f SIX;\n"), ("f", "typedef int (*f)SIX;\n"),
                ("f", "static int (*f[2])SIX;\n"),
                ("f", "void f(int (*done)SIX, int b);\n"),
                ("f", "void f(int (*done)SIX, int b)\n{\n    done(b);\n}\n"),
                ("f", "void g(void)\n{\n    int (*f)SIX = 0;\n}\n")):
            found = self.parameters(text.replace("SIX", six))
            self.assertEqual(len(found), 1, text)
            self.assertIn(f" {name} has 6 parameters", found[0], text)
            self.assertEqual(self.parameters(text.replace("SIX", six.replace("int a, ", ""))), [])

    def test_a_signature_that_libc_defines_does_not_count(self):
        body = "(void *a, int b, int c, int d, int e, long f)\n{\n    return a;\n}\n"
        self.assertEqual(self.parameters("void *mmap" + body), [])
        self.assertEqual(self.parameters("void *__wrap_mmap" + body), [])
        self.assertTrue(self.parameters("void *__wrap_store_map" + body))

    def test_a_pointer_to_another_librarys_function_does_not_count(self):
        text = "struct %s {\n    int (*launch)(int, int, int, int, int, int);\n};\n"
        self.assertEqual(self.parameters(text % "driver_calls"), [])
        self.assertTrue(self.parameters(text % "other_calls"))

    def test_an_exception_that_excuses_nothing_is_named(self):
        self.write("common/a.c", "void *mmap(void *a, int b, int c, int d, int e, long f);\n")
        found = list(check_size.unused_exceptions(check_size.read_tags(self.root)))
        self.assertEqual(len(found), len(check_size.OUTSIDE) - 1)
        self.assertFalse([text for text in found if "'mmap'" in text])


class Headers(Tree):
    def lacks(self, topics, code):
        """Returns the complaints about a header with |topics| in its opening comment, and |code|.
        """
        lines = "".join(f" * {line}\n" for line in topics)
        self.write("common/a.h", f"/* SPDX-License-Identifier: MIT */\n#pragma once\n\n/*\n"
                                 f" * A thing.\n{lines} */\n#include <stdio.h>\n{code}\n")
        return list(check_headers.complaints(self.root))

    def test_a_header_says_which_threads_may_use_it(self):
        for code in ("struct a {\n    int b;\n};", "int f(struct a *a, void (*g)(int));",
                     "static inline int f(void)\n{\n    return 0;\n}"):
            self.assertIn("Threading", self.lacks([], code)[0])
            self.assertEqual(self.lacks(["Threading  any thread"], code), [])

    def test_a_header_says_who_owns_its_objects(self):
        for code in ("int a_open(struct a **ret_a);", "void a_destroy(struct a *a);"):
            self.assertIn("Ownership", self.lacks(["Threading  any thread"], code)[0])
            topics = ["Ownership  the caller owns it", "Threading  any thread"]
            self.assertEqual(self.lacks(topics, code), [])

    def test_constants_need_no_topics(self):
        self.assertEqual(self.lacks([], "#define A_MAX 3 /* f(x) */\n#define B(x) \\\n    f(x);"),
                         [])

    def test_a_topic_inside_a_line_is_found(self):
        topics = ["Ownership  plain values Threading  any thread"]
        self.assertIn("beginning", self.lacks(topics, "int f(void);")[0])

    def test_tests_are_exempt(self):
        self.write("tests/a.h", "int f(void);\n")
        self.assertEqual(list(check_headers.complaints(self.root)), [])


class Prose(Tree):
    LONG = "word " * 30 + "\n"

    def test_a_long_line_of_prose_is_named(self):
        self.write("docs/a.md", "short\n" + self.LONG)
        self.assertIn("docs/a.md:2:", list(check_prose.complaints(self.root))[0])
        self.assertEqual(check_prose.long_lines("- item\n\n    " + self.LONG), [3])

    def test_tables_code_and_addresses_may_be_long(self):
        for text in ("| " + self.LONG, "```\n" + self.LONG + "```\n", "text:\n\n    " + self.LONG,
                     "see https://example.org/" + "a" * 100 + "\n"):
            self.assertEqual(check_prose.long_lines(text), [], text)

    def test_a_long_line_of_cmake_or_of_a_script_is_named(self):
        for name in ("common/CMakeLists.txt", "cmake/a.cmake", "scripts/a.py", "scripts/a.sh",
                     "scripts/a", "kernels/a.h"):
            self.write(name, "#!/usr/bin/env bash\n" + self.LONG)
            self.assertIn(f"{name}:2:", list(check_prose.complaints(self.root))[0])
            self.write(name, "# see https://example.org/" + "a" * 100 + "\n")
        self.assertEqual(list(check_prose.complaints(self.root)), [])


class Pins(Tree):
    def pinned(self, literal):
        self.write("tests/unit/a.c", f"assert_says(err.text,\n            {literal});\n")
        return list(check_tests.complaints(self.root))

    def test_a_pinned_sentence_is_found(self):
        self.assertIn("tests/unit/a.c:1:", self.pinned('"cannot open the file"')[0])
        self.assertEqual(len(self.pinned('"cannot open " "the file"')), 1)

    def test_a_sentence_is_found_in_other_comparisons(self):
        self.write("tests/unit/a.c", 'assert_string_equal(text_of(f), "cannot open the file");\n'
                   'assert_non_null(strstr(err.text, "cannot close the file"));\n')
        self.assertEqual(len(list(check_tests.complaints(self.root))), 2)

    def test_a_sentence_that_the_test_sends_is_fine(self):
        self.write("tests/unit/a.c", 'f->refusal = "the disk is broken";\n'
                   'assert_string_equal(f->err.text, "the disk is broken");\n')
        self.assertEqual(list(check_tests.complaints(self.root)), [])

    def test_a_sentence_that_a_python_test_pins_is_found(self):
        for call in ('assertIn("cannot open the file", text)',
                     'assertEqual(text, "no file was left")',
                     'assertIn(f"{n} files cannot be opened now", text)'):
            self.write("tests/a.py", f"self.{call}\n")
            self.assertEqual(len(list(check_tests.complaints(self.root))), 1, call)
        for call in ('assertIn("file", text)', 'assertEqual(f("cannot open the file"), 1)'):
            self.write("tests/a.py", f"self.{call}\n")
            self.assertEqual(list(check_tests.complaints(self.root)), [], call)
        self.write("tests/a.py", 'reason = "the disk is full"\nself.assertIn("the disk is full", '
                   'text)\n')
        self.assertEqual(list(check_tests.complaints(self.root)), [])

    def test_output_of_several_lines_may_be_compared(self):
        self.assertEqual(self.pinned('"it is not in the store\\nkey 1\\n"'), [])

    def test_a_pinned_key_word_or_datum_is_accepted(self):
        for literal in ('"gfx90a"', '"package_limit"', '"2 records, 3 problems"', '"\\"a\\":{}"'):
            self.assertEqual(self.pinned(literal), [], literal)


class Waits(Tree):
    def endless(self, text, rel="tests/unit/a.c"):
        self.write(rel, text)
        return list(check_tests.complaints(self.root))

    def test_an_endless_wait_in_c_is_found(self):
        for call in ("waitpid(child, &status, 0)", "pthread_join(t, NULL)", "loop_run(f->loop)",
                     "sem_wait(&s)", "pthread_cond_wait(&c, &m)", "poll(fds, n, -1)"):
            self.assertEqual(len(self.endless(f"    {call};\n")), 1, call)

    def test_a_bounded_wait_in_c_is_fine(self):
        for call in ("waitpid(-1, NULL, WNOHANG)", "await_child(child)", "await_thread(t, NULL)",
                     "poll(NULL, 0, 1)", "WAIT_FOR(sem_trywait(&s) == 0)"):
            self.assertEqual(self.endless(f"    {call};\n"), [], call)

    def test_an_endless_wait_in_python_is_found(self):
        for call in ("thread.join()", "process.communicate()", 'subprocess.run(["a", f(1)])'):
            self.assertEqual(len(self.endless(f"{call}\n", "tests/a.py")), 1, call)

    def test_a_bounded_wait_in_python_is_fine(self):
        for call in ('" ".join(words)', "process.wait(60)", 'subprocess.run(["a", f(1)], '
                     'timeout=6)'):
            self.assertEqual(self.endless(f"{call}\n", "tests/a.py"), [], call)

    def test_an_endless_loop_of_a_script_is_found(self):
        for loop in ("until ping; do", "    while true; do", "while :"):
            text = f"#!/usr/bin/env bash\n{loop}\n"
            self.assertEqual(len(self.endless(text, "scripts/a")), 1, loop)

    def test_a_script_may_count_the_turns_of_a_loop(self):
        for loop in ("for _ in {1..50}; do", "while read -r line; do", "# until it ends"):
            text = f"#!/usr/bin/env bash\n{loop}\n"
            self.assertEqual(self.endless(text, "tests/embedded/a"), [], loop)

    def test_a_skip_without_a_reason_is_found(self):
        self.assertEqual(len(self.endless("    if (!root)\n        skip();\n")), 1)
        self.assertEqual(self.endless('    SKIP_IF(!root, "needs root");\n'), [])

    def test_measuring_programs_may_wait_without_a_bound(self):
        self.assertEqual(self.endless("pthread_join(t, NULL);\n", "tests/bench/a.c"), [])


class Protocol(unittest.TestCase):
    def test_every_binary_message_has_its_fields(self):
        requests, replies, fields, records = gen_protocol.messages()
        binary = [r[0] for r in requests if r[3] == "BINARY"]
        binary += [r[0] for r in replies if r[2] == "BINARY"]
        self.assertIn("hello", binary)
        for name in binary + records:
            self.assertIn(name, fields)
            self.assertTrue(fields[name][1], f"{name} has no field")

    def test_message_numbers_are_used_once(self):
        requests, replies, _, _ = gen_protocol.messages()
        numbers = [r[1] for r in requests] + [r[1] for r in replies]
        self.assertEqual(len(numbers), len(set(numbers)))

    def test_a_problem_is_26_numbers_on_the_wire(self):
        self.assertEqual(gen_protocol.generate_problem().count("\n"), 26 + 2)

    def test_a_comment_may_stand_above_an_enumerator_or_a_constant(self):
        header = ("enum kind {\n    /* The\n     * first. */\n    KIND_A,\n"
                  "    KIND_B = 3, /* 2nd */\n};\n/* More. */\n#define LEASE_MORE 4u\n")
        with mock.patch.object(gen_protocol, "read", lambda _: header):
            self.assertEqual(gen_protocol.enum_rows("a.h", "kind", "KIND_"),
                             [(0, "`a`", "The first."), (3, "`b`", "2nd")])
            self.assertIn("| `LEASE_MORE` | 4 | More. |", gen_protocol.generate_constants())


class Metrics(unittest.TestCase):
    KNOWN = {"kiln_clients": ("gauge", [], ""),
             "kiln_hits_total": ("counter", ["tier"], ""),
             "kiln_wait_seconds": ("histogram", ["tier"], "")}

    def complaints(self, text):
        return list(gen_metrics.complain(text, "here", self.KNOWN))

    def test_a_known_metric_may_be_queried(self):
        self.assertEqual(self.complaints('sum(rate(kiln_hits_total{tier="hot",instance="a"}[5m]))'),
                         [])
        self.assertEqual(self.complaints('kiln_wait_seconds_bucket{le="1"} > kiln_clients'), [])

    def test_an_unknown_metric_is_reported(self):
        self.assertEqual(self.complaints("kiln_wishes_total > 1"),
                         ["here: kilnd has no metric 'kiln_wishes_total'"])
        self.assertTrue(self.complaints("kiln_clients_bucket"))  # kiln_clients is no histogram

    def test_an_unknown_metric_label_is_reported(self):
        self.assertEqual(self.complaints('kiln_hits_total{uid!="7"}'),
                         ["here: 'kiln_hits_total' has no label 'uid'"])

    def test_the_unit_of_a_metric_agrees_with_its_name(self):
        self.assertEqual(gen_metrics.unit_of("kiln_saved_seconds_total"), "seconds")
        self.assertEqual(gen_metrics.unit_of("kiln_clients"), "")


if __name__ == "__main__":
    unittest.main()
