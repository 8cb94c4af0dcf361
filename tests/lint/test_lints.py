# SPDX-License-Identifier: MIT
"""The lints themselves: each must complain about what it is there to catch."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import check_layers  # noqa: E402
import check_size  # noqa: E402
import check_spdx  # noqa: E402
import gen_metrics  # noqa: E402
import gen_protocol  # noqa: E402
import tree  # noqa: E402


class Tree(unittest.TestCase):
    """A small source tree in a temporary folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, rel, text):
        path = self.root / rel
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def including(self, rel, target):
        """What check_layers says about a file |rel| with one include."""
        self.write(rel, f"#include {target}\n")
        return list(check_layers.complaints(self.root))


class Layers(Tree):
    def test_an_arrow_of_the_architecture_is_allowed(self):
        self.assertEqual(self.including("engine/store/a.c", '"engine/db/db.h"'), [])
        self.assertEqual(self.including("daemon/server/b.c", '"engine/service/service.h"'), [])
        self.assertEqual(self.including("cli/kilnctl/c.c", "<kiln/client.h>"), [])
        self.assertEqual(self.including("cli/kilnctl/d.c", '"common/json.h"'), [])

    def test_an_include_against_the_arrows_is_refused(self):
        found = self.including("engine/store/a.c", '"engine/service/service.h"')
        self.assertEqual(len(found), 1)
        self.assertIn("engine/store may not include 'engine/service/service.h'", found[0])

    def test_the_command_line_sees_nothing_of_the_engine(self):
        self.assertTrue(self.including("cli/kilnctl/a.c", '"engine/engine.h"'))
        self.assertTrue(self.including("cli/kilnctl/a.c", '"common/frame.h"'))

    def test_the_compiler_process_sees_no_store(self):
        rel = "daemon/workers/kiln_compiler.c"
        self.assertEqual(self.including(rel, '"engine/compile/worker_wire.h"'), [])
        self.assertTrue(self.including(rel, '"engine/store/object.h"'))

    def test_a_library_is_known_to_its_one_home(self):
        self.assertEqual(self.including("daemon/loop/loop.c", "<uv.h>"), [])
        found = self.including("daemon/server/session.c", "<uv.h>")
        self.assertIn("only daemon/loop may include <uv.h>", found[0])

    def test_the_engine_does_not_use_the_public_headers(self):
        self.assertTrue(self.including("engine/engine.c", "<kiln/kiln.h>"))

    def test_build_folders_are_not_looked_at(self):
        self.assertEqual(self.including("build/release/engine/a.c", "<uv.h>"), [])


class Files(Tree):
    def names(self):
        return [rel for _, rel in tree.files(self.root)]

    def test_a_folder_that_is_no_checkout_is_walked(self):
        self.write("a/b.c", "")
        self.write("build/c.c", "")
        self.assertEqual(self.names(), ["a/b.c"])

    @unittest.skipUnless(shutil.which("git"), "git is not installed")
    def test_what_git_ignores_is_not_looked_at(self):
        subprocess.run(["git", "init", "-q", self.root], check=True)
        self.write(".gitignore", "/scratch/\n")
        self.write("scratch/a.c", "")
        self.write("new.c", "")
        self.write("gone.c", "")
        subprocess.run(["git", "-C", self.root, "add", "gone.c"], check=True)
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
        sizes = check_size.function_sizes(self.root)
        self.assertEqual(sizes, [(93, "common/a.c:2 long_one")])

    def test_a_must_check_attribute_does_not_hide_a_function(self):
        self.write("common/a.c", "KILN_MUST_CHECK enum kiln_code f(int a)\n{\n    return a;\n}\n")
        self.assertEqual([name for _, name in check_size.function_sizes(self.root)],
                         ["common/a.c:1 f"])


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

    def test_a_problem_is_25_numbers_on_the_wire(self):
        self.assertEqual(gen_protocol.generate_problem().count("\n"), 25 + 2)


class Metrics(unittest.TestCase):
    KNOWN = {"kiln_clients": ("gauge", [], ""),
             "kiln_hits_total": ("counter", ["tier"], ""),
             "kiln_wait_seconds": ("histogram", ["tier"], "")}

    def complaints(self, text):
        return list(gen_metrics.complain(text, "here", self.KNOWN))

    def test_what_kilnd_has_may_be_asked_for(self):
        self.assertEqual(self.complaints('sum(rate(kiln_hits_total{tier="hot",instance="a"}[5m]))'), [])
        self.assertEqual(self.complaints('kiln_wait_seconds_bucket{le="1"} > kiln_clients'), [])

    def test_a_metric_that_is_none_is_named(self):
        self.assertEqual(self.complaints("kiln_wishes_total > 1"),
                         ["here: kilnd has no metric 'kiln_wishes_total'"])
        self.assertTrue(self.complaints("kiln_clients_bucket"))  # it is no histogram

    def test_a_label_that_is_none_is_named(self):
        self.assertEqual(self.complaints('kiln_hits_total{uid!="7"}'),
                         ["here: 'kiln_hits_total' has no label 'uid'"])

    def test_the_unit_is_the_name_s(self):
        self.assertEqual(gen_metrics.unit_of("kiln_saved_seconds_total"), "seconds")
        self.assertEqual(gen_metrics.unit_of("kiln_clients"), "")


if __name__ == "__main__":
    unittest.main()
