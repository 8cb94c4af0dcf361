# SPDX-License-Identifier: MIT
"""The percentiles and bounds, and the list of attacks in CMake."""
import math
import pathlib
import re
import unittest

import figures
import run
import victim as victims

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


if __name__ == "__main__":
    unittest.main()
