# SPDX-License-Identifier: MIT
"""Tests completions in real shells, with a kilnd, without one, and with one that does not answer.

Usage: test_completions.py BIN MANUAL bash|zsh. Exits with 77 if the shell is not installed.
"""
import bz2
import hashlib
import os
import pathlib
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

import shells

BIN, MANUAL, SHELL = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), sys.argv[3]
WAIT_MAX_S = 60
COMPLETIONS = MANUAL.resolve() / "completions"
ASK = {"bash": shells.ask_bash, "zsh": shells.ask_zsh}[SHELL]
# Names of packages. A shell that executed one of these names would create the file "ran".
HOSTILE = ("gfx906$(touch ran).kdb", "gfx906`touch ran`.kdb", "gfx906;touch ran.kdb",
           "gfx906 x.kdb")


def environment(directory, **more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KILN", "XDG_", "MIOPEN_"))}
    return {**kept, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(directory),
            "XDG_RUNTIME_DIR": str(directory), "KILN_COMPLETION_TIMEOUT": "60s", **more}


def write_package(path):
    """Writes a package in MIOpen's format with one made-up kernel."""
    code = b"\x7fELF kernel" * 100
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE kern_db (id INTEGER PRIMARY KEY ASC, kernel_name TEXT NOT "
                         "NULL,"
                         "kernel_args TEXT NOT NULL, kernel_blob BLOB NOT NULL, kernel_hash TEXT "
                         "NOT"
                         " NULL, uncompressed_size INT NOT NULL)")
        database.execute("CREATE UNIQUE INDEX idx_kern_db ON kern_db(kernel_name, kernel_args)")
        database.execute("INSERT INTO kern_db VALUES (1, 'conv.s.o', ' -mcpu=gfx906', ?, ?, ?)",
                         (bz2.compress(code), hashlib.md5(code).hexdigest(), len(code)))
    database.close()


class Kilnd:
    """A kilnd with private directories. It is ready when it has notified its service manager."""

    def __init__(self, directory):
        self.socket = directory / "kilnd.sock"
        packages = directory / "packages"
        packages.mkdir()
        write_package(packages / "gfx906_60.kdb")
        for name in HOSTILE:
            shutil.copy(packages / "gfx906_60.kdb", packages / name)
        config = directory / "kilnd.json"
        config.write_text("{}")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(directory / "notify"))
            manager.settimeout(1)
            self.process = subprocess.Popen(
                [BIN / "kilnd", "--config", config, "--socket", self.socket, "--socket-group=",
                 "--cache-dir", directory / "cache", "--state-dir", directory / "state",
                 "--temp-dir", directory,
                 "--workers", "1", "--package-path", packages, "--log-level", "error"],
                env=environment(directory, NOTIFY_SOCKET=str(directory / "notify")))
            self._wait(manager)

    def _wait(self, manager):
        said = b""
        end = time.monotonic() + WAIT_MAX_S
        while b"READY=1" not in said:
            if time.monotonic() > end:
                raise AssertionError(f"waited {WAIT_MAX_S} s for kilnd to be ready")
            try:
                said = manager.recv(4096)
            except TimeoutError as error:
                if self.process.poll() is not None:
                    raise AssertionError(f"kilnd ended with {self.process.returncode}") from error

    def kilnctl(self, *words):
        done = subprocess.run([BIN / "kilnctl", *words, "--socket", self.socket, "--timeout",
                               "60s"],
                              check=True, text=True, capture_output=True, timeout=120)
        return done.stdout

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)


class WithoutKilndTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="kiln-complete-"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.directory)

    def offered(self, line):
        return ASK(COMPLETIONS, line, environment(self.directory))

    def assert_offers(self, line, *wanted):
        self.assertEqual(sorted(self.offered(line)), sorted(wanted), line)

    def test_offers_commands_and_groups(self):
        offered = self.offered("kilnctl ")
        for name in ("status", "gc", "kernel", "db", "pkg"):
            self.assertIn(name, offered)
        self.assertNotIn("ls", offered)

    def test_offers_the_commands_of_a_group(self):
        self.assert_offers("kilnctl toolchain ", "ls")
        self.assertIn("unpin", self.offered("kilnctl kernel u"))

    def test_finds_the_command_behind_options(self):
        self.assert_offers("kilnctl --json --socket /nowhere --timeout=1s kernel sh", "show")

    def test_offers_the_options_of_a_command(self):
        self.assert_offers("kilnctl gc --s", "--socket", "--stale")
        self.assert_offers("kilnctl status --s", "--socket")
        self.assert_offers("kilnctl run --to", "--torch")

    def test_offers_choices_behind_a_blank_and_behind_an_equals_sign(self):
        self.assert_offers("kilnctl db import --tier ", "host", "system", "user")
        self.assert_offers("kilnctl db import --kind=f", "find")
        self.assert_offers("kiln-driver run --find-mode n", "normal")
        self.assert_offers("kilnd --log-level w", "warning")
        self.assert_offers("kilnd --cache=o", "on", "off")

    def test_offers_compilers_and_their_files(self):
        programs = self.directory / "programs"
        programs.mkdir()
        (programs / "kernelcc-of-the-test").touch(0o755)
        (self.directory / "kernel-of-the-test.hip").touch()
        path = {"PATH": f"{programs}:{os.environ['PATH']}"}
        file = str(self.directory / "kernel-of")
        for line, wanted in (("kiln-cc kernelcc-of", "kernelcc-of-the-test"),
                             (f"kiln-cc clang {file}", "kernel-of-the-test.hip"),
                             (f"kiln-ptxas {file}", "kernel-of-the-test.hip")):
            offered = ASK(COMPLETIONS, line, environment(self.directory, **path))
            self.assertEqual([pathlib.Path(name).name for name in offered], [wanted], line)

    def test_offers_files_and_folders(self):
        (self.directory / "one.kdb").write_text("")
        (self.directory / "two").mkdir(exist_ok=True)
        self.assertIn("one.kdb", [pathlib.Path(f).name for f in
                                  self.offered(f"kilnctl pkg install {self.directory}/o")])
        directories = [pathlib.Path(f).name for f in self.offered(f"kilnd --cache-dir "
                                                                  f"{self.directory}/")]
        self.assertIn("two", directories)
        self.assertNotIn("one.kdb", directories)

    def test_offers_users_and_groups(self):
        self.assertIn("root", self.offered("kilnd --compiler-user ro"))
        self.assertIn("root", self.offered("kilnd --socket-group ro"))

    def test_offers_the_operations_of_the_driver(self):
        self.assert_offers("kiln-driver ", "conv", "convbfp16", "convfp16", "devices", "run")
        self.assertIn("--batchsize", self.offered("kiln-driver conv --b"))
        self.assertNotIn("--batchsize", self.offered("kiln-driver run --b"))

    def test_offers_nothing_for_numbers_and_unknown_commands(self):
        self.assert_offers("kilnctl kernel ls --limit ")
        self.assert_offers("kilnctl nonsense ")
        self.assert_offers("kilnd --workers ")

    def test_offers_known_targets_without_a_kilnd(self):
        self.assert_offers("kilnctl prefetch --target gfx94", "gfx942")

    def test_offers_no_keys_and_packages_without_a_kilnd(self):
        self.assert_offers("kilnctl kernel show ")
        self.assert_offers("kilnctl pkg rm ")

    def test_completion_does_not_wait_for_a_hung_kilnd(self):
        with socket.socket(socket.AF_UNIX) as mute:
            mute.bind(str(self.directory / "mute.sock"))
            mute.listen(8)
            words = environment(self.directory, KILN_SOCKET=str(self.directory / "mute.sock"))
            del words["KILN_COMPLETION_TIMEOUT"]
            # The completion waits at most half a second for kilnd's answer, but starting a shell
            # may take long.
            self.assertEqual(ASK(COMPLETIONS, "kilnctl kernel show ", words, 30), [])


class WithKilndTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="kiln-complete-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        # If kilnd runs as root, its compilers run as another user, who must be able to enter this
        # directory.
        cls.directory.chmod(0o711)
        cls.kilnd = Kilnd(cls.directory)
        cls.addClassCleanup(cls.kilnd.stop)

    def offered(self, line):
        return ASK(COMPLETIONS, line, environment(self.directory,
                                                  KILN_SOCKET=str(self.kilnd.socket)))

    def test_offers_packages_and_runs_nothing_of_their_names(self):
        listed = self.kilnd.kilnctl("pkg", "ls")
        for name in HOSTILE:
            self.assertIn(name, listed)
        offered = self.offered("kilnctl pkg verify ")
        self.assertIn("gfx906_60.kdb", offered)
        self.assertFalse((pathlib.Path.cwd() / "ran").exists())
        self.assertFalse((self.directory / "ran").exists())

    def test_offers_keys(self):
        cache = self.directory / "gfx906_60.ukdb"
        write_package(cache)
        self.kilnd.kilnctl("kernel", "import", str(cache))
        key = self.kilnd.kilnctl("kernel", "ls").splitlines()[1].split()[0]
        self.assertEqual(self.offered("kilnctl kernel show "), [key])
        self.assertEqual(self.offered(f"kilnctl kernel show {key[:3]}"), [key])

    def test_offers_toolchains(self):
        listed = self.kilnd.kilnctl("toolchain", "ls").splitlines()
        names = sorted({line.split()[0] for line in listed[1:listed.index("")]} if "" in listed
                       else [])
        if not names:
            self.skipTest("no compiler on this host")
        self.assertEqual(sorted(self.offered("kilnctl why-miss --toolchain ")), names)

    def test_asks_the_kilnd_that_the_line_names(self):
        words = environment(self.directory, KILN_SOCKET="/nowhere")
        line = f"kilnctl --socket {self.kilnd.socket} pkg rm gfx906_"
        self.assertEqual(ASK(COMPLETIONS, line, words), ["gfx906_60.kdb"])


if __name__ == "__main__":
    if not shutil.which(SHELL):
        print(f"test_completions: no {SHELL} here; Debian's package of that name has it",
              file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
