# SPDX-License-Identifier: MIT
"""Hosts write to, and read from, an object store that fails in several ways."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time
import unittest
from typing import Any

from hosts import BIN, WAIT_MAX_S, Host, wait_until
from object_store import ObjectStore, entity_tag

PROBLEM = ("conv -n 2 -c 8 -H 14 -W 13 -k 16 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -l 1 -j 1 -m conv "
           "-g 1 -F 1 -t 1")
UPLOADS = 'kiln_fleet_uploads_total{result="%s"}'
READS = 'kiln_fleet_requests_total{result="%s"}'
EXPIRED = 'kiln_fleet_leases_total{result="expired"}'
REFUSED = 'kiln_fleet_refused_total{reason="%s"}'

# For each fault of the store: the metric that a reader increments, and the resulting kiln_fleet_up.
# While kiln_fleet_up is 0, look-ups do not use the store.
READING = {
    "truncate": (READS % "malformed", 1),
    "wrong-bytes": (REFUSED % "malformed", 1),
    "forbidden": (READS % "forbidden", 1),
    "failing": (READS % "broken", 0),
    "busy": (READS % "busy", 0),
    "silent": ("kiln_fleet_up", 0),
    "whole-file": (READS % "malformed", 1),
}


class Fleet(unittest.TestCase):
    """A builder adds the kernels of PROBLEM to the store, and their index is published."""
    count = 0  # number of kernels of PROBLEM

    @classmethod
    def setUpClass(cls) -> None:
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="kiln-fleet-"))
        cls.addClassCleanup(shutil.rmtree, cls.place)
        cls.tree, cls.keys = cls.place / "store/bucket", cls.place / "keys"
        cls.tree.mkdir(parents=True)
        cls.keys.mkdir()
        cls.store = ObjectStore(cls.place / "store")
        cls.url = f"{cls.store.url}/bucket"
        cls.addClassCleanup(cls.store.close)
        cls.numbers = iter(range(100))
        plain = cls.open_host()
        plain.kilnctl("pkg", "keygen", "builder", "--directory", str(cls.place))
        cls.builder_key = str(cls.place / "builder.key")
        plain.kilnctl("fleet", "trust", str(cls.place / "builder.pub"), "--targets", "gfx90a",
                      "--index", "--directory", str(cls.keys))
        plain.stop()

    @classmethod
    def open_host(cls, *arguments: str) -> Host:
        host = Host(cls.place / f"host{next(cls.numbers)}", *arguments)
        cls.addClassCleanup(host.stop)
        return host

    def open_reader(self, *arguments: str) -> Host:
        host = self.open_host(f"--fleet={self.url}", f"--fleet-keys={self.keys}", *arguments)
        self.addCleanup(host.stop)
        return host

    def open_builder(self, *arguments: str) -> Host:
        return self.open_reader(f"--fleet-builder={self.builder_key}", "--fleet-wait=30s",
                                *arguments)

    def setUp(self) -> None:
        self.store.fault = self.store.put_fault = ""
        self.store.answered.clear()

    def loose(self) -> dict[pathlib.Path, bytes]:
        return {path: path.read_bytes() for path in self.tree.glob("v1/k/*/*")}

    def await_loose(self, count: int) -> None:
        """Also waits for the uploads of the test, so that the next test finds none under way."""
        wait_until(f"{count} loose kernels", lambda: len(self.loose()) == count)

    def puts(self, status: int) -> int:
        return sum(a.method == "PUT" and a.path.startswith("/bucket/v1/k/") and a.status == status
                   and a.condition == "*" for a in list(self.store.answered))

    def build(self) -> int:
        """Fills the tree unless another test did. Returns the number of kernels."""
        if not self.loose():
            builder = self.open_builder()
            builder.prefetch(PROBLEM)
            type(self).count = builder.stat("compiles")
            wait_until("uploads", lambda: builder.metric(UPLOADS % "done") == self.count)
            builder.stop()
        if not self.pointers():
            self.assertEqual(self.compact()["kernels"], self.count)
        return self.count

    def pointers(self) -> list[pathlib.Path]:
        return list(self.tree.glob("v1/i/*/current"))

    def run_compact(self) -> subprocess.CompletedProcess[str]:
        """Compacts the tree in the store. kilnctl needs no kilnd for this."""
        return subprocess.run(
            [BIN / "kilnctl", "fleet", "compact", "--key", self.builder_key, "--trust", self.keys,
             "--json", self.url], text=True, capture_output=True, timeout=WAIT_MAX_S, check=False)

    def compact(self) -> dict[str, Any]:
        ran = self.run_compact()
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        result: dict[str, Any] = json.loads(ran.stdout)
        return result

    def pointer_puts(self) -> list[tuple[int, str]]:
        return [(a.status, a.condition) for a in list(self.store.answered)
                if a.method == "PUT" and a.path.endswith("/current")]

    def without_pointer(self) -> None:
        """Removes the pointer, so that the next compaction finds all kernels again."""
        self.build()
        for pointer in self.pointers():
            self.addCleanup(pointer.write_bytes, pointer.read_bytes())
            pointer.unlink()
        self.store.answered.clear()

    def test_a_compaction_replaces_only_the_pointer_that_it_read(self) -> None:
        self.without_pointer()
        hidden = next(iter(self.loose()))
        record = hidden.read_bytes()
        hidden.unlink()
        first = self.compact()
        self.assertEqual(self.pointer_puts(), [(200, "*")])
        tag = entity_tag(self.pointers()[0].read_bytes()).strip('"')
        hidden.write_bytes(record)
        self.store.answered.clear()
        second = self.compact()
        self.assertEqual(self.pointer_puts(), [(200, tag)])
        self.assertEqual((first["kernels"], second["kernels"]), (len(self.loose()) - 1, 1))
        self.assertTrue(second["conditions"])
        subprocess.run([BIN / "kilnctl", "fleet", "verify", "--trust", self.keys, self.tree],
                       check=True, stdout=subprocess.DEVNULL, timeout=WAIT_MAX_S)

    def test_a_pointer_that_another_host_replaced_is_left_and_reported(self) -> None:
        self.without_pointer()
        self.store.put_fault = "pointer-changed"
        ran = self.run_compact()
        self.assertEqual(ran.returncode, 1, ran.stderr)
        self.assertIn("another host", json.loads(ran.stdout)["problems"][0]["why"])
        self.assertEqual(self.pointers(), [])

    def test_a_compaction_says_when_the_store_does_not_honour_conditions(self) -> None:
        for fault in ("no-conditions", "unsupported"):
            with self.subTest(fault):
                self.without_pointer()
                self.store.put_fault = fault
                self.assertFalse(self.compact()["conditions"])
                self.assertEqual(len(self.pointers()), 1)

    def test_a_compaction_of_a_store_that_fails_changes_nothing(self) -> None:
        for fault in ("truncate", "wrong-bytes", "forbidden", "failing"):
            with self.subTest(fault):
                self.without_pointer()
                self.store.fault = fault
                ran = self.run_compact()
                self.assertNotEqual(ran.returncode, 0, ran.stdout)
                self.assertEqual(self.pointers(), [])
                self.store.fault = ""

    def kilnctl_fleet(self, command: str, *arguments: str) -> dict[str, Any]:
        ran = subprocess.run(
            [BIN / "kilnctl", "fleet", command, "--trust", self.keys, "--json", *arguments,
             self.url], text=True, capture_output=True, timeout=WAIT_MAX_S, check=False)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        result: dict[str, Any] = json.loads(ran.stdout)
        return result

    def test_a_tree_in_a_store_is_verified(self) -> None:
        count = self.build()
        found = self.kilnctl_fleet("verify")
        self.assertEqual((found["kernels"], found["bad"]), (count, 0))

    def test_old_files_of_a_store_are_deleted(self) -> None:
        count = self.build()
        old = next(iter(self.loose()))
        record = old.read_bytes()
        self.addCleanup(old.write_bytes, record)
        two_days_ago = time.time() - 2 * 86400
        for path in [old, *self.tree.glob("v1/p/*")]:
            os.utime(path, (two_days_ago, two_days_ago))
        dry = self.kilnctl_fleet("gc", "--dry-run")
        self.assertEqual([entry["kind"] for entry in dry["files"]], ["loose"])
        self.assertTrue(old.exists())
        self.kilnctl_fleet("gc")
        self.assertFalse(old.exists())
        self.assertEqual(self.kilnctl_fleet("verify")["kernels"], count)

    def test_kernels_are_pushed_to_a_store(self) -> None:
        (self.tree.parent / "other").mkdir()
        plain = self.open_host()
        plain.prefetch(PROBLEM)
        count = plain.stat("compiles")
        for expected in ((count, 0), (0, count)):
            pushed = json.loads(plain.kilnctl("fleet", "push", "--key", self.builder_key, "--json",
                                              f"{self.store.url}/other"))
            self.assertEqual((pushed["added"], pushed["present"]), expected)

    def test_a_builder_adds_each_kernel_once(self) -> None:
        self.build()
        before = self.loose()
        index = next(self.tree.glob("v1/i/*/current"))
        pointer = index.read_bytes()
        index.unlink()  # so that the second builder compiles the same kernels
        self.store.answered.clear()
        second = self.open_builder("--fleet-lease=1h")
        second.prefetch(PROBLEM)
        wait_until("uploads", lambda: second.metric(UPLOADS % "exists") == self.count)
        self.assertEqual(self.puts(412), self.count)
        self.assertEqual(self.puts(200), 0)
        self.assertEqual(self.loose(), before)
        index.write_bytes(pointer)

    def test_a_reader_compiles_nothing(self) -> None:
        count = self.build()
        reader = self.open_reader("--fleet-wait=30s")
        reader.prefetch(PROBLEM)
        self.assertEqual(reader.stat("compiles"), 0)
        self.assertEqual(reader.stat("hits.fleet"), count)
        found = [a for a in self.store.answered if a.status != 404]  # not of another toolchain
        self.assertLessEqual(len(found), 2 + count)  # pointer, index, ranges

    def test_each_fault_of_reading_is_counted_apart(self) -> None:
        count = self.build()
        for fault, (metric, expected) in READING.items():
            with self.subTest(fault):
                # With the fault "silent", the store never answers, so the reader keeps the short
                # default of --fleet-wait. With other faults, the reader must wait for the answer.
                reader = self.open_reader(*["--fleet-wait=30s"] if fault != "silent" else [])
                self.store.fault = fault
                reader.prefetch(PROBLEM)
                self.assertEqual(reader.stat("compiles"), count)
                self.assertEqual(reader.stat("compile_errors"), 0)
                self.assertEqual(reader.metric("kiln_fleet_up"), expected)
                if metric != "kiln_fleet_up":
                    self.assertGreater(reader.metric(metric), 0)
                self.store.fault = ""
                reader.stop()

    def test_failed_uploads_are_counted_apart_and_nothing_is_lost(self) -> None:
        self.build()
        before = len(self.loose())
        builders = []
        for fault, result in (("forbidden", "forbidden"), ("failing", "broken")):
            with self.subTest(fault):
                self.store.put_fault = ""
                builder = self.open_builder("--fleet-lease=1h")
                builder.await_leases("on")
                self.store.put_fault = fault
                builder.prefetch(PROBLEM.replace("-k 16", "-k 24"))
                wait_until("an upload", lambda: builder.metric(UPLOADS % result) > 0)
                self.assertEqual(builder.stat("compile_errors"), 0)
                self.assertEqual(len(self.loose()), before)
                builders.append(builder)
                count = builder.stat("compiles")
        self.store.put_fault = ""
        for builder in builders:
            builder.stop()
            builder.start()  # otherwise the builder would repeat the upload only after a minute
        self.await_loose(before + count)

    def test_two_builders_compile_each_kernel_once(self) -> None:
        self.build()
        before = len(self.loose())
        builders = [self.open_builder("--fleet-lease=0s") for _ in range(2)]
        for builder in builders:
            builder.await_leases("on")
        threads = [threading.Thread(target=builder.prefetch,
                                    args=(PROBLEM.replace("-k 16", "-k 32"),))
                   for builder in builders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_MAX_S)
        compiled = [builder.stat("compiles") for builder in builders]
        shared = [builder.stat("hits.fleet") for builder in builders]
        count = compiled[0] + shared[0]
        self.assertEqual(compiled[1] + shared[1], count)
        self.await_loose(before + count)
        if sum(builder.metric(EXPIRED) for builder in builders) == 0:  # a busy machine is slow
            self.assertEqual(sum(compiled), count)

    def test_a_store_that_ignores_conditions_gives_no_leases(self) -> None:
        self.store.put_fault = "no-conditions"
        self.open_builder().await_leases("off")

    def test_a_store_that_refuses_conditions_gets_kernels_and_gives_no_leases(self) -> None:
        self.build()
        before = len(self.loose())
        self.store.put_fault = "unsupported"
        builder = self.open_builder()
        builder.await_leases("off")
        builder.prefetch(PROBLEM.replace("-k 16", "-k 40"))
        self.await_loose(before + builder.stat("compiles"))
        self.assertEqual(builder.metric(UPLOADS % "broken"), 0)


if __name__ == "__main__":
    unittest.main()
