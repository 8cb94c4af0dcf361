# SPDX-License-Identifier: MIT
"""Tests scripts/bench-gpu and scripts/bench-soon without a GPU: with packed programs that
only print invented results.
"""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]

# A fake program, which replaces all programs that the benchmark calls. It acts according to its own
# name. UNTUNED is the solver that the fake selects for a problem without measurements.
FAKE = '''#!/usr/bin/env python3
import json, os, sys
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
value = lambda flag: words[words.index(flag) + 1]
if name == "kiln-driver":
    print(json.dumps({"devices": [{"name": "cuda:0"}]}))
elif name == "gpu_peaks":
    print(json.dumps({"copy_gbps": 1000.0, "fp32_tflops": 10.0, "fp16_tflops": 100.0}))
else:
    kind = "cuDNN" if name == "cudnn_baseline" else \\
        os.environ["UNTUNED"] if "--untuned" in words else "ConvImplicitGemm"
    us = {"cuDNN": float(os.environ["CUDNN_US"]), "ConvImplicitGemm": 20.0}.get(kind, 40.0)
    with open(value("--json"), "w") as out, open(value("--problems")) as problems:
        for line in problems:
            label = " ".join((value("--type"), value("--layout"), line.strip()))
            print(json.dumps({"label": label, "problem": line, "type": value("--type"),
                              "layout": value("--layout"), "direction": "F", "flops": 1e8,
                              "bytes": 1e6, "solver": kind, "config": "", "us": us,
                              "state": "ok" if us else "none"}), file=out)
    print("1 trial")
'''


class Bench(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="kiln-bench-gpu-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        (self.directory / "packed/bin").mkdir(parents=True)
        (self.directory / "packed/lib").mkdir()
        for name in ("kilnd", "kiln-driver", "gpu_peaks", "gpu_trials", "cudnn_baseline"):
            path = self.directory / "packed/bin" / name
            path.write_text(FAKE)
            path.chmod(0o755)
        self.out = self.directory / "out"

    def bench(self, *arguments, untuned="ConvWinograd", cudnn_us=30.0):
        done = subprocess.run(
            [SOURCE / "scripts/bench-gpu", "--packed", self.directory / "packed", "--out", self.out,
             *arguments], text=True, capture_output=True,
            env=os.environ | {"UNTUNED": untuned, "CUDNN_US": str(cudnn_us)})
        return done.returncode, done.stdout + done.stderr

    def problems(self, network):
        return json.loads((self.out / network / "problems.json").read_text())["problems"]

    def test_each_network_is_compared_untuned_and_tuned_in_its_own_directory(self):
        status, text = self.bench("--network", "dcgan", "--network", "r3d-18", "--types",
                                  "tf32,bf16-nchw", "cudnn", "untuned", "kiln")
        self.assertEqual(status, 0, text)
        self.assertIn("== dcgan: ", text)
        self.assertIn("cuDNN : kiln, tf32 NCHW all: 1.500 ", text)
        self.assertIn("untuned kiln, bf16 NCHW all: 0.750 ", text)
        for network, batch, count in (("dcgan", " -n 128 ", 30), ("r3d-18", " -n 32 ", 33)):
            rows = self.problems(network)
            self.assertEqual(len(rows), 2 * count)
            self.assertTrue(all(batch in r["label"] for r in rows))
            self.assertTrue((self.out / network / "problems.md").exists())

    def test_a_sample_is_the_same_for_all_programs(self):
        status, text = self.bench("--network", "slowfast", "--sample", "7", "--types", "fp32",
                                  "cudnn", "untuned", "kiln")
        self.assertEqual(status, 0, text)
        rows = self.problems("slowfast")
        self.assertEqual(len(rows), 7)
        self.assertTrue(all("ratio" in r and "untuned_ratio" in r for r in rows))

    def test_networks_together_are_one_list_of_samples_that_the_seed_chooses(self):
        sampled = []
        for seed in ("0", "1"):
            status, text = self.bench("--network", "slowfast", "--network", "dcgan", "--together",
                                      "--seed", seed, "--sample", "5", "--types", "fp32", "cudnn")
            self.assertEqual(status, 0, text)
            rows = self.problems("together")
            self.assertEqual(sum(" -n 128 " in r["label"] for r in rows), 5)
            self.assertEqual(sum(" -n 8 " in r["label"] for r in rows), 5)
            sampled.append([r["label"] for r in rows])
        self.assertNotEqual(*sampled)

    def test_the_naive_solver_as_untuned_choice_and_an_impossible_time_fail(self):
        status, text = self.bench("--sample", "2", "untuned", untuned="ConvDirectNaive")
        self.assertEqual(status, 1, text)
        self.assertIn("NAIVE: ", text)
        self.assertTrue((self.out / "peaks.json").exists())
        status, text = self.bench("--network", "patches", "--sample", "2", "cudnn", cudnn_us=0.01)
        self.assertEqual(status, 1, text)
        self.assertIn("IMPOSSIBLE: cuDNN", text)

    def test_a_problem_without_an_engine_of_cudnn_has_a_row(self):
        status, text = self.bench("--network", "patches", "--types", "fp32", "cudnn", "kiln",
                                  cudnn_us=0.0)
        self.assertEqual(status, 0, text)
        self.assertIn(" 12 of 12 problems", text)

    def test_networks_are_listed_with_their_batches(self):
        status, text = self.bench("--list")
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r"nnunet-3d +batch +2 +81 problems")
        self.assertNotIn("smoke", text)

    def test_unknown_words_are_refused(self):
        for words, why in ((("--network", "alexnet"), "no network 'alexnet'"),
                           (("--types", "fp64"), "the type 'fp64' is not one of"),
                           (("quickly",), "no part 'quickly'")):
            status, text = self.bench(*words)
            self.assertEqual(status, 2, text)
            self.assertIn(why, text)


# kilnd, kilnctl, a kiln-driver that appends the lines to run to the file $RAN, and fails unless
# $FULL is 0, and a job_steps whose plans take 1 ms on a kilnd that "full" has filled, else $MS.
FAKE_SOON = '''#!/bin/sh
case "${0##*/} $1" in
    "job_steps "*)
        ms=$MS
        case "$KILN_SOCKET" in *full*) ms=1 ;; esac
        echo "${0##*/} $* ${KILN_PLANS:-soon} ${KILN_TRACE:-}" >>"$RAN"
        echo '{"first":{"seconds":1,"wait_s":0,"load_s":0,"compile_s":0,"compiled":0,"generic":0},
            "steps":{"count":9,"seconds":1,"undisturbed_s":1,"longest_s":1,"plans":1,
            "improved_s":0},"step_s":1,"device_s":'"$ms"',"problems":[{"command":"conv",
            "solver":"A","config":"1","ms":'"$ms"',"tuned":true}]}'
        mkdir -p "$XDG_STATE_HOME/kiln/tune" && printf '>\\t1\\n' >"$XDG_STATE_HOME/kiln/tune/1" ;;
    "kilnd "*) exec sleep 60 ;;
    "kiln-driver devices") echo '{"devices":[{"name":"cuda:0"}]}' ;;
    "kiln-driver run") cat "$2" >>"$RAN"; echo '{"results":[]}'; exit "${FULL:-1}" ;;
esac
'''


class Soon(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="kiln-bench-soon-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        (self.directory / "packed/bin").mkdir(parents=True)
        (self.directory / "packed/lib").mkdir()
        for name in ("kilnd", "kilnctl", "kiln-compiler", "kiln-driver", "job_steps"):
            path = self.directory / "packed/bin" / name
            path.write_text(FAKE_SOON)
            path.chmod(0o755)
        (self.directory / "network").write_text("conv -n 1 -c 8 -F 1\n")

    def bench(self, *arguments, **variables):
        done = subprocess.run(
            [SOURCE / "scripts/bench-soon", "--packed", self.directory / "packed", "--out",
             self.directory / "out", "--network", self.directory / "network", *arguments],
            text=True, capture_output=True,
            env=os.environ | {"RAN": str(self.directory / "ran"), "MS": "1"} | variables)
        return done.returncode, done.stdout + done.stderr

    def test_only_the_full_tune_searches_even_if_it_fails(self):
        status, text = self.bench("--types", "fp32", "full", "first")
        self.assertEqual(status, 1, text)
        full, first = (self.directory / "ran").read_text().splitlines()
        self.assertTrue(full.endswith(" -s 1"))
        self.assertNotIn(" -s 1", first)

    def test_the_last_plans_need_a_full_tune_to_compare_with(self):
        status, text = self.bench("--types", "fp32", "steps")
        self.assertEqual(status, 2, text)
        self.assertIn("name both parts (fp32)", text)

    def test_the_last_plans_of_a_job_are_compared_with_the_tuned_ones(self):
        status, text = self.bench("--types", "fp32", "--time", "7", "full", "steps", FULL="0",
                                  MS="1.02")
        self.assertEqual(status, 0, text)
        self.assertIn("1.020 times the tuned", text)
        cold, warm, tuned, prefetched = [
            line for line in (self.directory / "ran").read_text().splitlines()
            if line.startswith("job_steps ")]
        self.assertIn(" --seconds 7 ", cold)
        self.assertTrue(cold.endswith(" soon steps-fp32"))
        for line in (warm, prefetched):
            self.assertIn(" --seconds 0 ", line)
            self.assertTrue(line.endswith(" soon "))
        self.assertTrue(tuned.endswith(" frozen "))
        status, text = self.bench("--types", "fp32", "steps", MS="1.04")
        self.assertEqual(status, 1, text)
        self.assertIn("1.04 times: conv: A 1", text)

    def test_ranks_leave_tuned_plans_in_the_records(self):
        status, text = self.bench("--types", "fp32", "--ranks", "2", "full", "ranks", FULL="0")
        self.assertEqual(status, 0, text)
        ran = (self.directory / "ran").read_text()
        self.assertEqual(ran.count(" --seconds 60 "), 2)
        self.assertEqual(ran.count("frozen"), 2)

    def test_a_tune_of_other_programs_is_refused(self):
        self.bench("--types", "fp32", "full", FULL="0")
        with (self.directory / "packed/bin/kiln-compiler").open("a") as file:
            file.write("# rebuilt\n")
        status, text = self.bench("--types", "fp32", "steps")
        self.assertEqual(status, 2, text)
        self.assertIn("other programs", text)

    def test_a_tune_of_unknown_programs_does_not_count(self):
        (self.directory / "out").mkdir()
        (self.directory / "out/full-fp32.json").write_text("{}")
        status, text = self.bench("--types", "fp32", "steps")
        self.assertEqual(status, 2, text)
        self.assertIn("'steps'", text)
