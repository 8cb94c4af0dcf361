# SPDX-License-Identifier: MIT
"""Tests the percentiles and bounds, and compares the list of attacks in CMake."""
import argparse
import math
import os
import pathlib
import re
import tempfile
import unittest

import figures
import host as hosts
import load_attacks
import report
import run
import victim as victims
import wire

HERE = pathlib.Path(__file__).resolve().parent
PING = victims.Operation("ping", 0.01, 0)


def cmake_list(file, name):
    text = re.sub(r"#.*", "", (HERE / file).read_text(encoding="utf-8"))
    return re.search(rf"set\({name}\b([^)]*)\)", text)[1].split()


class Lists(unittest.TestCase):
    def test_every_attack_is_registered_in_cmake(self):
        self.assertEqual(cmake_list("CMakeLists.txt", "KILN_ATTACKS"), list(run.BY_NAME))

    def test_known_attacks_exist(self):
        self.assertLessEqual(set(cmake_list("known.cmake", "KILN_KNOWN_ATTACKS")), set(run.BY_NAME))

    def test_every_attack_says_what_it_does(self):
        for one in run.ALL:
            self.assertTrue(one().says().endswith("."), one.name)


class Figures(unittest.TestCase):
    def test_percentiles_are_of_the_nearest_rank(self):
        values = [float(i) for i in range(1, 101)]
        self.assertEqual(figures.percentile(values, 0.5), 50)
        self.assertEqual(figures.percentile(values, 0.99), 99)
        self.assertEqual(figures.percentile([7.0], 0.99), 7)
        self.assertTrue(math.isnan(figures.percentile([], 0.5)))

    def test_a_long_wait_counts_for_the_operations_that_it_delayed(self):
        blocked = [victims.Sample(0.0, 0.001, 0), victims.Sample(1.0, 1.0, 0)]
        waits = figures.with_missed(blocked, 0.1)
        self.assertEqual(len(waits), 11)
        self.assertAlmostEqual(min(w.seconds for w in waits[1:]), 0.1)

    def test_delayed_operations_belong_to_the_window_in_which_they_would_have_begun(self):
        samples = [victims.Sample(i * 0.01, 0.0001, 0) for i in range(100)]
        samples.append(victims.Sample(1.0, 2.0, 0))
        self.assertEqual(figures.wait_of(PING, samples, 0.0, 1.0).number, 100)
        later = figures.wait_of(PING, samples, 2.0, 3.0)
        self.assertAlmostEqual(later.max_ms, 1000, delta=20)

    def test_a_wait_beyond_its_bound_is_broken(self):
        quiet = {"ping": figures.Wait(100, 0.1, 1.0, 2.0, 0)}
        within = {"ping": figures.Wait(100, 0.1, 24.9, 30.0, 0)}
        beyond = {"ping": figures.Wait(100, 0.1, 25.1, 30.0, 0)}
        refused = {"ping": figures.Wait(100, 0.1, 1.0, 30.0, 3)}
        self.assertEqual(figures.broken_waits("now", quiet, within), [])
        self.assertEqual(len(figures.broken_waits("now", quiet, beyond)), 1)
        self.assertEqual(len(figures.broken_waits("now", quiet, refused)), 1)

    def test_a_compile_may_wait_for_one_trivial_compile_more(self):
        quiet = figures.Wait(5, 900.0, 1000.0, 1000.0, 0)
        self.assertEqual(figures.bound_ms("compile", quiet) - figures.bound_ms("ping", quiet), 900)

    def test_an_echo_without_kilnd_has_no_bound(self):
        quiet = {"echo": figures.Wait(100, 0.1, 1.0, 2.0, 0)}
        late = {"echo": figures.Wait(100, 0.1, 500.0, 500.0, 0)}
        self.assertEqual(figures.broken_waits("now", quiet, late), [])
        self.assertEqual(figures.largest_share(quiet, late).part, 0)

    def test_an_operation_without_an_answer_is_broken(self):
        none = {"ping": figures.wait_of(PING, [], 0.0, 1.0)}
        quiet = {"ping": figures.Wait(100, 0.1, 1.0, 2.0, 0)}
        self.assertEqual(len(figures.broken_waits("now", quiet, none)), 1)
        self.assertEqual(len(figures.broken_short_waits("now", none)), 1)

    def test_memory_beyond_the_limit_and_memory_that_stays_are_broken(self):
        mib = 1 << 20
        self.assertEqual(figures.Memory(10 * mib, 20 * mib, 20 * mib, 30 * mib).broken(), [])
        self.assertEqual(len(figures.Memory(10 * mib, 40 * mib, 20 * mib, 30 * mib).broken()), 1)
        self.assertEqual(len(figures.Memory(10 * mib, 20 * mib, 90 * mib, 300 * mib).broken()), 1)

    def test_code_objects_beyond_the_limit_are_broken(self):
        within, beyond = (figures.Memory(0, 0, 0, 1, objects, 7) for objects in (7, 8))
        self.assertEqual(within.broken(), [])
        self.assertEqual(len(beyond.broken()), 1)

    def test_code_objects_count_once_however_a_process_keeps_them(self):
        before = hosts.object_memory([os.getpid()])
        kept: list[load_attacks.Kept] = []
        for i in range(3):
            fd = os.memfd_create("kiln-object")
            os.write(fd, bytes(1 << 20))
            kept.append(os.dup(fd))
            kept.append(load_attacks.keep(fd, i))
        self.assertEqual(hosts.object_memory([os.getpid()]) - before, 3 << 20)
        for one in kept:
            if isinstance(one, int):
                os.close(one)
            else:
                one.close()
        self.assertEqual(hosts.object_memory([os.getpid()]), before)


class Begun(unittest.TestCase):
    def test_an_operation_has_begun_when_its_last_or_running_sample_began_later(self):
        record = victims.Record()
        self.assertEqual(record.latest_start(), 0.0)
        record.begin(5.0)
        self.assertEqual(record.latest_start(), 5.0)
        record.end(wire.OK)
        self.assertEqual(record.latest_start(), 5.0)
        record.begin(7.0)
        self.assertEqual(record.latest_start(), 7.0)


class Leftovers(unittest.TestCase):
    def test_what_the_victim_always_has_is_no_leftover(self):
        before = hosts.Waiting(8, 0, 0, 0)
        self.assertEqual(hosts.Waiting(8, 1, 20_000, 3).beyond(before), [])

    def test_connections_compiles_and_bytes_of_attackers_are_leftovers(self):
        before = hosts.Waiting(8, 0, 0, 0)
        self.assertEqual(len(hosts.Waiting(10, 5, 2 << 20, 20).beyond(before)), 4)


class Report(unittest.TestCase):
    def setUp(self):
        wait = figures.Wait(100, 0.1, 1.0, 2.0, 0)
        waits = {name: wait for name in report.NAMES}
        slow = {**waits, "import": wait._replace(p99_ms=50.0)}
        memory = figures.Memory(10 << 20, 20 << 20, 12 << 20, 30 << 20)
        self.outcomes = [
            figures.Outcome("lookups", "H1", "Looks up.", waits, slow, waits, memory, ["late"], [],
                            0.25),
            figures.Outcome("rollback", "suspected", "Rolls back.", {}, {}, {}, None, [], [])]
        self.given = argparse.Namespace(rounds=3, seconds=10.0, load=0.5)

    def test_the_share_of_a_bound_names_the_slowest_operation(self):
        share = figures.largest_share(self.outcomes[0].quiet, self.outcomes[0].attacked)
        self.assertEqual((share.part, share.name), (2.0, "import"))

    def test_an_unanswered_operation_exceeds_its_bound(self):
        quiet = self.outcomes[0].quiet
        none = {**quiet, "ping": figures.wait_of(PING, [], 0.0, 1.0)}
        self.assertEqual(figures.largest_share(quiet, none), (math.inf, "ping"))

    def test_the_table_shows_times_memory_and_both_shares(self):
        text = report.markdown_of(self.given, self.outcomes)
        row = next(line for line in text.splitlines() if line.startswith("| `lookups`"))
        for part in ("0.10 / 1.00 → 0.10 / 50.0", "10 → 20, then 12; 30", "200 % (import)",
                     "broken: late"):
            self.assertIn(part, row)
        self.assertIn("| `rollback`: Rolls back. | nothing", text)

    def test_only_the_table_of_the_page_is_replaced(self):
        with tempfile.TemporaryDirectory() as directory:
            page = pathlib.Path(directory) / "page.md"
            page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n", "utf-8")
            report.replace_table(page, "new\n")
            self.assertEqual(page.read_text("utf-8"),
                             f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n")

    def test_the_page_has_a_place_for_the_table(self):
        page = (wire.ROOT / "docs" / "security.md").read_text("utf-8")
        self.assertEqual((page.count(report.BEGIN), page.count(report.END)), (1, 1))


if __name__ == "__main__":
    unittest.main()
