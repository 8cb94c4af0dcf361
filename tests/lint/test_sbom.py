# SPDX-License-Identifier: MIT
"""Tests that the bill of materials names what programs link, and packages that the build used."""
import contextlib
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import gen_sbom  # noqa: E402


def bill(*arguments):
    output = io.StringIO()
    with contextlib.redirect_stdout(output), mock.patch.dict(os.environ, SOURCE_DATE_EPOCH="60"):
        gen_sbom.main(["--version", "1.2", *arguments])
    return output.getvalue()


@unittest.skipUnless(shutil.which("dpkg-query") and shutil.which("readelf"), "needs dpkg, binutils")
class Bill(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.program = pathlib.Path(cls.place.name, "bin", "copy")
        cls.program.parent.mkdir()
        shutil.copy("/bin/ls", cls.program)  # any program that needs more libraries than libc
        cls.program.with_name("script").write_text("#!/bin/sh\n", encoding="utf-8")
        cls.text = bill("--built-with", "dpkg", cls.place.name)
        cls.bill = json.loads(cls.text)

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def package(self, name):
        return next(p for p in self.bill["packages"] if p["name"] == name)

    def relations(self, kind):
        return [(r["spdxElementId"], r["relatedSpdxElement"]) for r in self.bill["relationships"]
                if r["relationshipType"] == kind]

    def test_a_linked_library_is_named_with_its_package_and_version(self):
        libc = self.package("libc6")
        self.assertEqual(libc["versionInfo"],
                         gen_sbom.run("dpkg-query", "--show", "--showformat=${Version}", "libc6"))
        self.assertIn("pkg:deb/debian/libc6@", libc["externalRefs"][0]["referenceLocator"])
        self.assertIn(("SPDXRef-file-bin-copy", libc["SPDXID"]), self.relations("DYNAMIC_LINK"))
        self.assertIn(("SPDXRef-kiln", libc["SPDXID"]), self.relations("DEPENDS_ON"))

    def test_every_needed_library_is_linked(self):
        self.assertEqual(len(self.relations("DYNAMIC_LINK")),
                         len({gen_sbom.owner(gen_sbom.known_libraries()[library])
                              for library in gen_sbom.needed(self.program)}))

    def test_only_programs_are_files_and_their_sums_are_right(self):
        self.assertEqual([f["fileName"] for f in self.bill["files"]], ["./bin/copy"])
        self.assertIn({"algorithm": "SHA256",
                       "checksumValue": hashlib.sha256(self.program.read_bytes()).hexdigest()},
                      self.bill["files"][0]["checksums"])

    def test_a_package_that_the_build_used_is_no_dependency(self):
        dpkg = self.package("dpkg")["SPDXID"]
        self.assertIn((dpkg, "SPDXRef-kiln"), self.relations("BUILD_DEPENDENCY_OF"))
        self.assertNotIn(("SPDXRef-kiln", dpkg), self.relations("DEPENDS_ON"))

    def test_identifiers_are_valid_and_every_relationship_leads_to_one(self):
        names = [e["SPDXID"] for e in self.bill["packages"] + self.bill["files"]]
        self.assertEqual(len(names), len(set(names)))
        for name in names:
            self.assertRegex(name, re.compile(r"^SPDXRef-[A-Za-z0-9.-]+$"))
        for relation in self.bill["relationships"]:
            self.assertIn(relation["relatedSpdxElement"], names)
            self.assertIn(relation["spdxElementId"], names + ["SPDXRef-DOCUMENT"])

    def test_the_same_input_gives_the_same_bytes(self):
        self.assertEqual(bill("--built-with", "dpkg", self.place.name), self.text)
        self.assertEqual(self.bill["creationInfo"]["created"], "1970-01-01T00:01:00Z")

    def test_an_unknown_package_is_an_error(self):
        with self.assertRaises(LookupError):
            gen_sbom.owner("/no/such/library.so")


if __name__ == "__main__":
    unittest.main()
