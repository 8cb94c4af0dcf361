# SPDX-License-Identifier: MIT
"""Tests of cmake/commit.cmake, which finds the commit of a source tree."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HASH = "0123456789abcdef0123456789abcdef01234567"


@unittest.skipUnless(shutil.which("cmake") and shutil.which("git"), "needs cmake and git")
class Commit(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.tree = pathlib.Path(directory.name) / "tree"
        (self.tree / "cmake").mkdir(parents=True)
        for name in (".gitattributes", "cmake/commit.cmake"):
            shutil.copy(ROOT / name, self.tree / name)
        # the file's content in the repository
        (self.tree / "cmake/commit.txt").write_text("$Format:%H$\n")
        (self.tree / "print.cmake").write_text(
            "include(${CMAKE_CURRENT_LIST_DIR}/cmake/commit.cmake)\nmessage(NOTICE "
            "\"${kiln_commit}\")\n")

    def git(self, *arguments, directory=None):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        return subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
            cwd=directory or self.tree, env={**environment, "GIT_CONFIG_GLOBAL": "/dev/null"},
            check=True, capture_output=True, timeout=60).stdout

    def commit(self, directory=None):
        self.git("init", "-q", directory=directory)
        self.git("add", "-A", directory=directory)
        self.git("commit", "-q", "-m", "all", directory=directory)
        return self.git("rev-parse", "HEAD", directory=directory).decode()[:12]

    def found(self, *options, status=0):
        ended = subprocess.run(["cmake", *options, "-P", self.tree / "print.cmake"],
                               capture_output=True, text=True, timeout=60)
        self.assertEqual(ended.returncode, status, ended.stderr)
        return ended.stderr.strip()

    def test_a_work_tree_reports_its_commit_and_whether_it_differs(self):
        commit = self.commit()
        self.assertEqual(self.found(), commit)
        self.git("tag", "v1")
        self.assertEqual(self.found(), commit)
        shutil.copy(self.tree / "print.cmake", self.tree / "cmake/commit.txt")
        self.assertEqual(self.found(), f"{commit}-dirty")

    def test_an_archive_of_git_reports_the_commit_of_its_work_tree(self):
        commit = self.commit()
        archive = self.git("archive", "HEAD")
        shutil.rmtree(self.tree)
        self.tree.mkdir()
        subprocess.run(["tar", "-x", "-C", self.tree], input=archive, check=True, timeout=60)
        self.assertEqual(self.found(), commit)

    def test_a_commit_written_into_the_tree_is_used(self):
        (self.tree / "cmake/commit.txt").write_text(f"{HASH[:12]}-dirty\n")
        self.assertEqual(self.found(), f"{HASH[:12]}-dirty")

    def test_without_git_and_a_written_commit_the_commit_is_unknown(self):
        self.assertEqual(self.found(), "unknown")
        (self.tree / "cmake/commit.txt").unlink()
        self.assertEqual(self.found(), "unknown")
        (self.tree / ".git").mkdir()  # an empty directory, which is no repository
        self.assertEqual(self.found(), "unknown")

    def test_the_commit_of_an_enclosing_repository_is_not_used(self):
        self.commit(directory=self.tree.parent)
        self.assertEqual(self.found(), "unknown")

    def test_a_given_commit_takes_precedence(self):
        self.commit()
        self.assertEqual(self.found(f"-DKILN_COMMIT={HASH}"), HASH)
        self.assertIn("KILN_COMMIT", self.found('-DKILN_COMMIT=a"b', status=1))


if __name__ == "__main__":
    unittest.main()
