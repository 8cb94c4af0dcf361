# SPDX-License-Identifier: MIT
"""Tests the reports of GPU measurements with invented numbers."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

DIRECTORY = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(DIRECTORY))
sys.path.insert(0, str(DIRECTORY.parents[1] / "scripts"))

import compare  # noqa: E402
import gpu_results  # noqa: E402
import startup  # noqa: E402

PEAKS = {"copy_gbps": 1000.0, "fp32_tflops": 10.0, "fp16_tflops": 100.0}


def row(label, solver, us, **more):
    return {"label": label, "problem": f"conv {label}", "type": "fp32", "layout": "NCHW",
            "direction": label[0], "flops": 1e9, "bytes": 1e6, "solver": solver, "config": "1,2",
            "state": "ok", "text": "", "us": us, "spread": 0.01, "workspace": 0, **more}


class Files(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def lines(self, name, rows):
        path = self.directory / name
        path.write_text("".join(json.dumps(r) + "\n" for r in rows))
        return str(path)

    def file(self, name, value):
        path = self.directory / name
        path.write_text(json.dumps(value))
        return str(path)

    def output_of(self, main, *arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            result = main(list(arguments))
        return result, out.getvalue()


class Soon(Files):
    """The verdicts of scripts/bench-soon."""

    def rows(self, name, *seconds, **more):
        return self.file(name, {"results": [
            {"command": f"conv {i}", "ok": True, "solver": "ConvA", "config": "1",
             "times": {"find_s": 0.1, "fetch_s": 0, "load_s": 0, "steady_s": s},
             "kernels": [{"tier": "compiled"}],
             "provisional": {"solver": "ConvGeneric", "tuned": True}, **more}
            for i, s in enumerate(seconds)]})

    def verdict(self, *arguments):
        return self.output_of(gpu_results.main, *arguments)

    def test_a_plan_at_once_is_not_measured_and_with_a_package_not_compiled(self):
        path = self.rows("first", 1.0)
        status, text = self.verdict("first", path)
        self.assertEqual(status, 0)
        self.assertIn("1 of them generic; 1 kernels were compiled; 0.100 s", text)
        self.assertEqual(self.verdict("first", path, "no-compile")[0], 1)
        timed = self.rows("timed", 1.0, find={"solvers": [{"state": "TIMED"}]})
        self.assertEqual(self.verdict("first", timed)[0], 1)

    def test_configs_that_several_processes_ran_are_counted(self):
        text = "kiln-tune 2\n" + "".join(f">\t{i},1\tx\n" for i in range(20))
        (self.directory / "one.tune").write_text(text + ">\t0,1\tx\n")
        status, told = self.verdict("shared", str(self.directory))
        self.assertEqual(status, 0)
        self.assertIn("20 configs were run, 1 of them again", told)
        (self.directory / "one.tune").write_text(text + text)
        self.assertEqual(self.verdict("shared", str(self.directory))[0], 1)


class Compare(Files):
    def test_the_fastest_right_trial_of_a_problem_counts(self):
        path = self.lines("kiln", [
            row("F a", "ConvA", 40.0), row("F a", "ConvB", 20.0),
            row("F a", "ConvC", 1.0, state="WRONG"), row("F a", "ConvD", 2.0, state="slow"),
            row("F a", "ConvE", 0.0), row("F a", "cuDNN", 30.0)])
        best = compare.read([path])["F a"]
        self.assertEqual(best["kiln"]["solver"], "ConvB")
        self.assertEqual(best["cuDNN"]["us"], 30.0)
        self.assertEqual([r["solver"] for r in best["wrong"]], ["ConvC"])
        self.assertAlmostEqual(compare.figures(best, {})["ratio"], 1.5)

    def test_the_floor_is_what_binds(self):
        self.assertEqual(compare.floor_of(row("F a", "x", 1), PEAKS), (100.0, "flops"))
        self.assertEqual(compare.floor_of(row("F a", "x", 1, bytes=1e9), PEAKS), (1000.0, "bytes"))
        self.assertEqual(compare.floor_of(row("F a", "x", 1, type="bf16"), PEAKS), (10.0, "flops"))
        self.assertEqual(compare.floor_of(row("F a", "x", 1), {}), (None, None))

    def test_a_problem_that_cudnn_has_nothing_for_is_no_failure(self):
        path = self.lines("none", [row("F a", "ConvA", 40.0),
                                   row("F a", "cuDNN", 0.0, state="none")])
        best = compare.read([path])["F a"]
        self.assertNotIn("cuDNN", best)
        self.assertNotIn("wrong", best)
        status, text = self.output_of(compare.main, path)
        self.assertFalse(status)
        self.assertRegex(text, r"F a .* none ")
        self.assertIn("no engine for 1 of 1", text)

    def test_a_time_far_below_the_floor_is_impossible(self):
        def why(us, **more):
            return compare.impossible(row("F a", "cuDNN", us, **more), PEAKS)
        self.assertIsNone(why(100.0))
        self.assertIsNone(why(20.5))  # possible with Winograd or TF32
        self.assertIn("its arithmetic", why(19.0))
        self.assertIn("its arithmetic", why(8.0, type="fp16", problem="conv -y 1 -x 1 -p 0"))
        self.assertIn("moving its tensors", why(199.0, bytes=1e9))
        self.assertIsNone(compare.impossible(row("F a", "cuDNN", 0.001), {}))

    def test_an_impossible_time_fails_the_comparison(self):
        path = self.lines("all", [row("F a", "ConvA", 40.0), row("F a", "cuDNN", 0.5)])
        failed, text = self.output_of(compare.main, "--peaks", self.file("peaks", PEAKS), path)
        self.assertTrue(failed)
        self.assertIn("IMPOSSIBLE: cuDNN, F a", text)

    def test_means_are_geometric_by_direction_and_over_all(self):
        rows = [{"type": "fp32", "layout": "NCHW", "direction": d, "ratio": r}
                for d, r in (("F", 1.0), ("F", 4.0), ("B", 2.0))]
        means = {what: (count, mean) for what, count, mean in compare.means(rows)}
        self.assertEqual(means["fp32 NCHW F"][0], 2)
        self.assertAlmostEqual(means["fp32 NCHW F"][1], 2.0)
        self.assertAlmostEqual(means["fp32 NCHW all"][1], 2.0)
        self.assertEqual(means["fp32 NCHW W"], (0, None))

    def test_the_worst_ten_come_first_to_last(self):
        rows = [{"type": "fp32", "layout": "NCHW", "ratio": r} for r in range(12, 0, -1)]
        self.assertEqual([r["ratio"] for r in compare.worst(rows)], list(range(1, 11)))

    def test_untuned_choices_are_compared_with_tuned_ones_and_with_cudnn(self):
        untuned = self.lines("untuned", [row("F a", "ConvB", 40.0), row("B b", "ConvB", 10.0)])
        tuned = self.lines("tuned", [row("F a", "ConvA", 20.0), row("F a", "cuDNN", 30.0),
                                     row("B b", "cuDNN", 5.0)])
        problems = compare.read([tuned], [untuned])
        a, b = (compare.figures(problems[label], {}) for label in ("F a", "B b"))
        self.assertEqual((a["ratio"], a["untuned_ratio"], a["untuned_loss"]), (1.5, 0.75, 2.0))
        self.assertEqual((a["solver"], a["untuned_solver"]), ("ConvA", "ConvB"))
        self.assertNotIn("ratio", b)
        self.assertEqual([r["label"] for r in compare.worst([a, b])], ["B b", "F a"])
        status, text = self.output_of(compare.main, "--untuned", untuned, tuned)
        self.assertFalse(status)
        self.assertIn("untuned kiln : tuned, fp32 NCHW all: 2.000 ", text)
        self.assertIn("cuDNN : untuned kiln, fp32 NCHW all: 0.612 over 2", text)

    def test_the_naive_solver_as_untuned_choice_fails_the_comparison(self):
        tuned = self.lines("tuned", [row("F a", "ConvDirectNaive", 20.0)])
        self.assertFalse(self.output_of(compare.main, tuned)[0])
        for state in ("ok", "slow", "out of time"):
            untuned = self.lines("untuned", [row("F a", "ConvDirectNaive", 20.0, state=state)])
            status, text = self.output_of(compare.main, "--untuned", untuned, tuned)
            self.assertTrue(status)
            self.assertIn("NAIVE: F a: ConvDirectNaive ", text)

    def test_all_of_it_is_written(self):
        path = self.lines("all", [row("F a", "ConvA", 10.0), row("F a", "cuDNN", 20.0),
                                  row("F a", "PyTorch", 5.0),
                                  row("B b", "ConvA", 10.0, state="FAILED", text="lost")])
        markdown, figures = self.directory / "m", self.directory / "j"
        _, text = self.output_of(compare.main, "--peaks", self.file("peaks", PEAKS), "--json",
                                 str(figures), "--markdown", str(markdown), path)
        self.assertIn("cuDNN : kiln, fp32 NCHW all: 2.000 over 1", text)
        self.assertIn("PyTorch : kiln, fp32 NCHW all: 0.500 over 1", text)
        self.assertIn("FAILED: B b ConvA 1,2: ", text)
        self.assertIn("1 trials ", text)
        self.assertIn("| F a | 10.0 | - | 100.0 | 20.0 | 5.0 | 2.00 | 100.0 | flops | ConvA | 1,2 "
                      "| - |  |",
                      markdown.read_text())
        self.assertEqual(json.loads(figures.read_text())["problems"][0]["ratio"], 2.0)


class Startup(Files):
    def test_medians_are_compared_with_the_cold_case_of_the_type(self):
        cases = startup.read(self.lines("s", [
            {"case": "fp32 cold", "seconds": s, "plan_s": 1.0} for s in (9.0, 10.0, 30.0)]
            + [{"case": "fp32 warm", "seconds": 1.0}, {"case": "fp16 warm", "seconds": 1.0}]))
        rows = {r[0]: r for r in startup.table(cases)}
        self.assertEqual(rows["fp32 cold"][1:6], ["3", "10.000", "9.000", "30.000", "1.000"])
        self.assertEqual(rows["fp32 warm"][5], "0.100")
        self.assertEqual(rows["fp16 warm"][5], "-")
        self.assertEqual(rows["fp32 cold"][8], "1.000")


def result(command="conv 1", **more):
    return {"command": command, "ok": True, "checked": True, "wrong": 0, "largest_error": 0.5,
            "solver": "ConvA", "config": "1", "times": {"steady_s": 2.0},
            "find": {"solvers": [{"state": "TIMED"}], "trials": [{}, {}]}, **more}


def job(ms=2.0, tuned=True, **more):
    """Returns what job_steps prints for two problems, of which the second one takes 1 ms."""
    first = {"seconds": 1.0, "wait_s": 0.0009, "load_s": 0.1, "compile_s": 0.0, "compiled": 0,
             "generic": 0}
    steps = {"count": 100, "seconds": 10.0, "undisturbed_s": 10.0, "longest_s": 0.2, "plans": 3,
             "improved_s": 4.0}
    problems = [{"command": f"conv {i}", "solver": "ConvA", "config": "1", "ms": t, "tuned": tuned}
                for i, t in ((1, ms), (2, 1.0))]
    return {"first": {k: more.get(k, v) for k, v in first.items()},
            "steps": {k: more.get(k, v) for k, v in steps.items()}, "step_s": 0.003,
            "device_s": (ms + 1) / 1e3, "problems": problems}


class Results(Files):
    def run_on(self, what, *lists):
        paths = [self.file(f"f{i}", {"results": rows}) for i, rows in enumerate(lists)]
        return self.output_of(gpu_results.main, what, *paths)

    def test_verified_wants_every_problem_compared_and_right(self):
        self.assertEqual(self.run_on("verified", [result(), result()])[0], 0)
        for bad in (result(wrong=1), result(checked=False), result(ok=False)):
            status, text = self.run_on("verified", [result(), bad])
            self.assertEqual(status, 1)
            self.assertIn("1 of 2 problems verified", text)
        self.assertEqual(self.run_on("verified", [])[0], 1)

    def test_found_wants_the_solver_that_is_taken_compared_and_none_wrong(self):
        right = {"solver": "ConvA", "state": "TIMED", "checked": 64}
        slow = {"solver": "ConvB", "state": "CUT_SHORT", "checked": 0}
        status, text = self.run_on("found", [result(find={"solvers": [right, slow]})])
        self.assertEqual(status, 0)
        self.assertIn(" 64 elements compared", text)
        for bad in (dict(right, state="WRONG"), dict(right, state="CUT_SHORT"),
                    dict(right, checked=0), dict(right, solver="ConvC")):
            self.assertEqual(self.run_on("found", [result(find={"solvers": [bad]})])[0], 1)
        wrong = {"solver": "ConvB", "state": "WRONG", "checked": 0, "reason": "element 3"}
        status, text = self.run_on("found", [result(find={"solvers": [right, wrong]})])
        self.assertEqual(status, 1)
        self.assertIn("ConvB WRONG element 3", text)
        self.assertEqual(self.run_on("found", [])[0], 1)

    def test_what_was_not_recorded_counts(self):
        lost = {"solvers": [{"solver": "ConvA", "state": "TIMED", "checked": 64}],
                "recorded": False, "not_recorded": "the disk is full"}
        for what in ("found", "measured"):
            status, text = self.run_on(what, [result(find=lost)])
            self.assertEqual(status, 1)
            self.assertIn("the disk is full", text)

    def test_merged_has_the_results_of_all(self):
        status, text = self.run_on("merged", [result("conv 1")], [result("conv 2")])
        self.assertEqual(status, 0)
        self.assertEqual([r["command"] for r in json.loads(text)["results"]], ["conv 1", "conv 2"])

    def test_measured_wants_a_time_for_every_problem(self):
        status, text = self.run_on("measured", [result()])
        self.assertEqual(status, 0)
        self.assertIn("solvers: 1 TIMED", text)
        untimed = result(find={"solvers": [{"state": "NOT_COMPILED"}]})
        self.assertEqual(self.run_on("measured", [result(), untimed])[0], 1)

    def test_planned_wants_the_same_solver_and_config_and_nothing_timed(self):
        recorded = {"find": {"solvers": [{"state": "RECORDED"}]}}
        after = result(times={"steady_s": 2.1}, **recorded)
        status, text = self.run_on("planned", [result()], [after])
        self.assertEqual(status, 0)
        self.assertIn("median 1.050", text)
        for bad in (result(), result(config="2", **recorded), result(ok=False, **recorded)):
            self.assertEqual(self.run_on("planned", [result()], [bad])[0], 1)
        self.assertEqual(self.run_on("planned", [result(), result("conv 2")], [after])[0], 1)

    def test_planned_wants_the_remembered_kernels_to_take_as_long_as_the_tuned(self):
        def ended(*seconds):
            names = [f"conv {i}" for i in range(len(seconds))]
            after = [result(name, times={"steady_s": s}, find={"solvers": []})
                     for name, s in zip(names, seconds)]
            return self.run_on("planned", [result(name) for name in names], after)

        for good in (2.0, 1.82, 2.18):
            self.assertEqual(ended(good)[0], 0)
        self.assertEqual(ended(1.9, 2.1, 2.3)[0], 0)  # a single ratio may be noise
        for bad, median in (((1.78,), "0.890"), ((2.22,), "1.110"), ((2.0, 2.4, 2.6), "1.200")):
            status, text = ended(*bad)
            self.assertEqual(status, 1)
            self.assertIn(f"median {median}", text)
            self.assertIn("not as long", text)
            self.assertIn(f"{len(bad)} of {len(bad)} problems planned", text)
        status, text = ended(None)
        self.assertEqual(status, 1)
        self.assertIn("no times", text)

    def run_on_jobs(self, what, *jobs):
        paths = [self.file(f"j{i}", job) for i, job in enumerate(jobs)]
        return self.output_of(gpu_results.main, what, *paths)

    def test_a_first_step_may_take_as_long_as_a_warm_one_and_the_compiles(self):
        for seconds, verdict in ((1.49, 0), (1.51, 1)):
            status, text = self.run_on_jobs("begun", job(seconds=seconds, compile_s=0.2), job())
            self.assertEqual(status, verdict, text)
            self.assertIn("the limit is 1.500 s", text)

    def test_last_plans_are_compared_with_the_tuned_ones(self):
        for ms, verdict in ((2.05, 0), (2.2, 1)):
            status, text = self.run_on_jobs("ended", job(), job(ms=ms, tuned=False))
            self.assertEqual(status, verdict, text)
            self.assertIn("0 of 2 problems tuned", text)
        self.assertIn("0.200 ms longer, 1.10 times: conv 1: ConvA 1, not ConvA 1 (not tuned yet)",
                      text)

    def test_steps_may_lose_a_twentieth(self):
        for undisturbed_s, verdict in ((9.6, 0), (9.4, 1)):
            self.assertEqual(self.run_on_jobs("lost", job(undisturbed_s=undisturbed_s))[0], verdict)
        self.assertEqual(self.run_on_jobs("lost", job(count=0))[0], 1)

    def test_a_prefetched_job_waits_for_nothing(self):
        for change, verdict in (({}, 0), ({"wait_s": 0.0011}, 1), ({"compiled": 1}, 1)):
            self.assertEqual(self.run_on_jobs("waited", job(**change))[0], verdict)

    def test_chosen_lists_what_gpu_trials_reads(self):
        status, text = self.run_on("chosen", [result(), result(config="", command="conv 2")])
        self.assertEqual(status, 0)
        self.assertEqual(text, "ConvA\t1\tconv 1\nConvA\t-\tconv 2\n")

    def test_a_sample_has_the_same_lines_every_time(self):
        path = self.directory / "list"
        path.write_text("# a list\n" + "".join(f"conv -n 1 -c {c}\n" for c in range(50)))
        all_of = self.output_of(gpu_results.main, "sample", "0", str(path), "0")[1].splitlines()
        some = self.output_of(gpu_results.main, "sample", "9", str(path), "0")[1].splitlines()
        self.assertEqual(len(all_of), 50)
        self.assertEqual(len(some), 9)
        self.assertEqual(some, [line for line in all_of if line in some])
        again = self.output_of(gpu_results.main, "sample", "9", str(path), "0")[1].splitlines()
        self.assertEqual(some, again)
        more = self.output_of(gpu_results.main, "sample", "10", str(path), "0")[1].splitlines()
        self.assertLess(set(some), set(more))
        other = self.output_of(gpu_results.main, "sample", "9", str(path), "1")[1].splitlines()
        self.assertNotEqual(some, other)

    def test_other_words_are_refused(self):
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(gpu_results.main(["guessed", "x"]), 2)
            self.assertEqual(gpu_results.main(["planned", "x"]), 2)
