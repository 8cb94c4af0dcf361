# SPDX-License-Identifier: MIT
"""Tests of report.py: python3 -m unittest discover -s tests/bench -p 'test_*.py'."""
import unittest

import report


def fetch(way, size, clients, cpus, p50, per_s=(1.0, 1.0, 1.0)):
    return {"bench": "fetch", "way": way, "size": size, "clients": clients,
            "cpus": cpus, "touched": size,
            "p50_us": list(p50), "p99_us": list(p50), "per_s": list(per_s)}


def row_of(table, what):
    return next(r for r in table.rows if r["what"] == what)


def tuned(bench, kind="find", **members):
    return {"bench": bench, "kind": kind, "file": "gfx90a68.HIP.fdb.txt", "genuine": True,
            "records": 193590, "rows": 648924, "bytes": 60 << 20, **members}


DESCRIPTOR = f"kiln : {report.WAYS['descriptor']}, p50"


class Report(unittest.TestCase):
    def test_a_ratio_is_the_median_of_the_turns_own_ratios(self):
        self.assertEqual(report.ratio([10, 200, 12], [10, 100, 6]), 2)

    def test_a_fetch_within_its_budget_meets_it(self):
        table = report.make_table([fetch("descriptor", 20480, 1, "one", (10, 10, 10)),
                                   fetch("kiln", 20480, 1, "one", (14, 15, 13))])
        row = row_of(table, DESCRIPTOR)
        self.assertEqual((row["figure"], row["verdict"]), (1.4, report.MEETS))

    def test_a_fetch_beyond_its_budget_misses_and_is_named_at_the_end(self):
        table = report.make_table([fetch("descriptor", 20480, 1, "one", (10, 10, 10)),
                                   fetch("kiln", 20480, 1, "one", (16, 16, 16))])
        self.assertEqual(row_of(table, DESCRIPTOR)["verdict"], report.MISSES)
        self.assertIn("0 of 1 budgets met", report.text_of(table))
        self.assertIn("misses: Warm fetch, 20 KiB", report.text_of(table))

    def test_libkiln_is_compared_with_the_same_frames_by_hand(self):
        table = report.make_table([fetch("kiln-wire", 4096, 1, "two", (20, 20, 20)),
                                   fetch("kiln", 4096, 1, "two", (32, 32, 32))])
        row = row_of(table, f"kiln : {report.WAYS['kiln-wire']}, p50")
        self.assertEqual((row["figure"], row["verdict"]), (1.6, report.MISSES))
        self.assertIn(report.CPUS["two"], report.text_of(table))

    def test_redis_is_judged_by_rate_and_size(self):
        table = report.make_table([
            fetch("redis", 65536, 16, "any", (1, 1, 1), (100, 100, 100)),
            fetch("kiln", 65536, 16, "any", (1, 1, 1), (140, 149, 160))])
        row = row_of(table, "kiln : Redis, rate")
        self.assertEqual((row["figure"], row["verdict"]), (1.49, report.MISSES))

    def test_what_could_not_run_is_named_and_has_no_row(self):
        lost = {"bench": "fetch", "way": "redis", "size": 4096, "clients": 16, "cpus": "any",
                "touched": 4096, "not_run": "no redis-server"}
        table = report.make_table([lost], [("disk", "was not built")])
        self.assertEqual(table.rows, [])
        self.assertIn("no redis-server", report.text_of(table))
        self.assertIn("disk: was not built", report.text_of(table))

    def test_one_compile_too_many_in_any_turn_misses(self):
        table = report.make_table([{"bench": "stampede", "toolchain": "opencl", "kernels": 24,
                                    "clients": 8, "one_s": [1, 1], "many_s": [1, 1],
                                    "compiles": [24, 25]}])
        row = row_of(table, "compiles")
        self.assertEqual((row["figure"], row["verdict"]), (25, report.MISSES))

    def scaling(self, **members):
        return report.make_table([{"bench": "scaling", "toolchain": "hiprtc", "kernels": 24,
                                   "workers": 2, "one_s": [3.0, 2.8, 3.0],
                                   "many_s": [2.0, 2.0, 2.0], **members}])

    def test_processes_without_kiln_stand_beside_the_throughput_of_compilers(self):
        table = self.scaling(direct_one_s=[2.4, 2.4, 2.4], direct_many_s=[1.6, 1.5, 1.6])
        rows = {r["what"]: r for r in table.rows}
        kiln = rows["throughput, 2 compilers : one"]
        self.assertEqual((kiln["figure"], kiln["verdict"]), (1.5, report.MISSES))
        floor = rows["throughput, 2 processes that call hiprtc directly : one"]
        self.assertAlmostEqual(floor["figure"], 1.5)
        self.assertEqual(floor["verdict"], "")
        both = rows["throughput, 2 compilers : 2 processes that call hiprtc directly"]
        self.assertAlmostEqual(both["figure"], 0.8)

    def test_a_compiler_that_cannot_be_called_directly_has_no_floor_and_says_why(self):
        table = self.scaling(direct_not_run="'clang' is not a library to call")
        self.assertEqual(len(table.rows), 2)
        self.assertIn("'clang' is not a library to call", report.text_of(table))

    def test_eviction_that_stalls_look_ups_misses(self):
        def store(way, p99, kernels=1000):
            return {"bench": "store", "way": way, "kernels": kernels, "size": 2048, "stored": 9,
                    "evicted": 9, "p50_us": [50, 50, 50], "p99_us": p99}
        table = report.make_table([store("few", [90, 90, 90]), store("many", [90, 90, 90], 100000),
                                   store("quiet", [90, 90, 90]), store("filling", [100, 100, 100]),
                                   store("evicting", [150, 210, 220])])
        row = row_of(table, "writes that evict : writes below the limit, p99")
        self.assertEqual((row["figure"], row["verdict"]), (2.1, report.MISSES))
        self.assertEqual(row_of(table, "p50")["figure"], 1)

    def test_a_first_answer_is_judged_by_what_it_takes_more_than_with_a_running_kilnd(self):
        table = report.make_table([
            {"bench": "first", "way": way, "ms": ms} for way, ms in
            (("running", [1.0, 2.0, 3.0]), ("stored", [30.0, 32.0, 90.0]),
             ("new", [32.1, 40.0, 1.0]),
             ("new-64", [99.0, 99.0, 99.0]))])
        verdicts = {r["what"]: r["verdict"] for r in table.rows if r["what"].endswith("median")}
        self.assertEqual(list(verdicts.values()), ["", report.MEETS, report.MISSES, ""])

    def test_only_the_largest_store_is_judged(self):
        def store(kernels, ready):
            return {"bench": "start", "kernels": kernels, "size": 2048, "fill_per_s": 1.0,
                    "file_bytes": 2148 * kernels, "ready_ms": [ready], "resident_mib": [10.0],
                    "disk_us": [50.0], "hot_us": [10.0], "resident_after_mib": 20.0,
                    "shared_after_mib": 5.0}
        table = report.make_table([store(1000, 99.0), store(100000, 49.0)])
        judged = [r["verdict"] for r in table.rows if r["what"] == "start to first answer"]
        self.assertEqual(judged, ["", report.MEETS])
        self.assertEqual(row_of(table, "disk space per kernel, without its object")["figure"], 100)

    def test_objects_on_disk_are_judged_against_bzip2_for_each_compiler(self):
        def packed(way, size, unpack):
            return {"bench": "disk", "target": "sm_90", "toolchain": "nvrtc", "way": way,
                    "objects": 2, "raw_bytes": 2000, "bytes": size, "pack_us": [1.0],
                    "unpack_us": [unpack]}
        table = report.make_table([
            {"bench": "disk", "target": "gfx906", "toolchain": "hiprtc", "not_run": "no hiprtc"},
            packed("bzip2", 1000, 95.0), packed("zstd", 800, 9.0), packed("kiln", 400, 10.0)])
        self.assertEqual(row_of(table, "not packed")["figure"], 1000)
        self.assertEqual(row_of(table, "kiln")["figure"], 200)
        self.assertEqual(row_of(table, "kiln")["verdict"], report.MEETS)
        self.assertEqual(row_of(table, "kiln : zstd, bytes")["figure"], 0.5)
        self.assertEqual(row_of(table, "unpacking, bzip2 : kiln")["verdict"], report.MISSES)
        self.assertIn("gfx906 from hiprtc: no hiprtc", report.text_of(table))

    def test_an_import_is_judged_by_its_turns_against_wc_and_the_quicker_sort(self):
        table = report.make_table([tuned("tuning_import", imported=9, bad=0, index_bytes=1 << 20,
                                         wc_s=[1.0, 2.0, 1.0], sort_c_s=[1.0, 1.0, 1.0],
                                         sort_s=[9.0, 9.0, 9.0], import_s=[5.8, 9.3, 6.2])])
        row = row_of(table, "import : wc and sort, C locale")
        self.assertEqual((row["figure"], row["verdict"]), (3.1, report.MISSES))
        self.assertEqual(row_of(table, "import : wc and sort, this locale")["verdict"], "")

    def test_a_byte_that_a_first_answer_leaves_behind_misses(self):
        def first(kept, greeted):
            return tuned("tuning_first", way="kiln", greeted=greeted, processes=1,
                         ms=[0.9, 0.9, 1.1], resident_kib=[99], own_kib=[8], kept_bytes=[kept],
                         more_own_kib=[0])
        name = report.TUNING_WAYS["kiln"]
        table = report.make_table([first(40960, False), first(1, True)])
        self.assertEqual(row_of(table, f"{name}: time")["verdict"], report.MEETS)
        self.assertEqual(row_of(table, f"{name}: memory kept")["verdict"], "")
        kept = row_of(table, f"{name}, connected before: memory kept")
        self.assertEqual((kept["figure"], kept["verdict"]), (1, report.MISSES))

    def test_each_kind_of_database_has_its_own_look_up_budget(self):
        def looked_up(way, kind, micros, processes=1):
            return tuned("tuning_look_up", kind=kind, way=way, processes=processes, cpus="any",
                         questions=9, mean_us=[micros], p50_us=[micros], p99_us=[micros],
                         per_s=[1.0])
        find, perf = (report.make_table([looked_up("engine", kind, 4.0)])
                      for kind in ("find", "perf"))
        self.assertEqual(find.rows[0]["verdict"], report.MISSES)
        self.assertEqual(perf.rows[0]["verdict"], report.MEETS)
        over = report.make_table([looked_up("same-bytes", "find", 10.0),
                                  looked_up("kiln", "find", 16.0)])
        trip = f"kiln : {report.TUNING_WAYS['same-bytes']}, p50"
        self.assertEqual(row_of(over, trip)["verdict"], report.MISSES)
        many = report.make_table([looked_up("same-bytes", "find", 10.0, 8),
                                  looked_up("kiln", "find", 16.0, 8)])
        self.assertEqual(row_of(many, trip)["verdict"], "")

    def test_made_up_databases_are_called_so(self):
        batch = tuned("tuning_batch", items=1000, cpus="two", one_us=[9.0], each_us=[1.9])
        batch["genuine"] = False
        table = report.make_table([batch])
        self.assertIn("(made up)", table.rows[0]["section"])
        self.assertEqual(row_of(table, "per record of the batch")["verdict"], report.MEETS)

    def test_an_empty_run_prints_no_figure(self):
        table = report.make_table([], [("fetch", "kilnd ended")])
        self.assertEqual(table.rows, [])
        self.assertIn("fetch: kilnd ended", report.text_of(table))

    def test_costs_of_libkiln_rtc_are_differences_of_minimums(self):
        def rtc(what, **values):
            return {"bench": "rtc", "what": what, **values}
        table = report.make_table([
            rtc("memory", hit_us=90, fetch_us=30), rtc("memory", hit_us=120, fetch_us=40),
            rtc("files", hit_us=2000, fetch_us=30), rtc("miss", bare_us=100, miss_us=102),
            rtc("launch_ptxas", bare_us=17700, hit_us=2500),
            rtc("launch_ptxas", bare_us=18000, hit_us=2000),
            rtc("start", bare_us=500, start_us=600)])
        self.assertEqual([(r["figure"], r["verdict"]) for r in table.rows],
                         [(60, report.MEETS), (1970, report.MISSES), (1.02, report.MEETS),
                          (2, ""), (0.1, report.MEETS)])


if __name__ == "__main__":
    unittest.main()
