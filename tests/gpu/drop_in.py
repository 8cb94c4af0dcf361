#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures what CuPy and PyTorch, unmodified, gain from "kilnctl run" (docs/drop-in.md), and what
Triton gains from kiln-ptxas.

Usage: tests/gpu/drop_in.py --bin DIR [OPTION]... [cupy] [torch] [triton]

KILN_SOCKET names a kilnd that nothing else uses. Each process of a run has a new home directory,
so that neither the package's own cache nor the driver's has anything. For Triton, only its own
cache is new. The runs are:
  plain        without kiln
  filled       without kiln, in the home of the run "plain", whose caches are now filled
  cold         under kilnctl run; kilnd has nothing
  warm         under kilnctl run; kilnd has the results of the run "cold"
  plain-eight  eight processes at once, without kiln
  eight        eight processes at once under kilnctl run; kilnd has nothing
Triton has the runs plain, cold and warm; cold and warm set TRITON_PTXAS_PATH to kiln-ptxas.

  --bin DIR           the directory of kilnctl
  --runs LIST         some of these runs, separated by commas (all)
  --library-path PATH LD_LIBRARY_PATH of the processes (default: not set)
  --logs DIR          keep there what each process printed
  --job FILE          the program to run instead of drop_in_job.py or triton_job.py

Exit status: 0 all aims are met; 1 one is not; 77 the package or a GPU is not there.
"""
import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
RUNS = ("plain", "filled", "cold", "warm", "plain-eight", "eight")
TRITON_RUNS = ("plain", "cold", "warm")
PROCESSES = 8
SKIPPED = 77
WAIT_MAX_S = 300
WARM_MAX_S = {"cupy": 1.2, "torch": 0.6}
EIGHT_RATIO_MAX = 1.15
COUNTS = re.compile(r"kilnctl: (\d+) compiles: (\d+) answered by kilnd, (\d+) compiled and stored, "
                    r"(\d+) compiled without kilnd")
REASONS = re.compile(r"kilnctl: (\d+ without kilnd: .*)")
# Environment variables that a job must not inherit. With most of them, it would find kernels in the
# cache of an earlier job. LD_LIBRARY_PATH is set separately.
CACHES = ("CUPY_CACHE_DIR", "PYTORCH_KERNEL_CACHE_PATH", "CUDA_CACHE_PATH", "XDG_CACHE_HOME",
          "XDG_CONFIG_HOME", "XDG_STATE_HOME", "LD_LIBRARY_PATH", "TRITON_CACHE_DIR",
          "TRITON_HOME", "TRITON_PTXAS_PATH", "KILN_PTXAS")


class Process:
    """One process of a run."""

    def __init__(self, scene, name, home, with_kiln, start=None):
        self.log = scene.logs / f"{scene.program}-{name}"
        self.ready = home / "ready"
        job = [sys.executable, str(scene.job), scene.program]
        if start:
            job += ["--ready", str(self.ready), "--start", str(start)]
        environment = {n: v for n, v in os.environ.items() if n not in CACHES}
        if scene.program == "triton":  # HOME is part of the key, because clang reads it
            environment["TRITON_CACHE_DIR"] = str(home / "triton")
        else:
            environment["HOME"] = str(home)
        library_path = f"LD_LIBRARY_PATH={scene.library_path}"
        if with_kiln and scene.program == "triton":
            environment["TRITON_PTXAS_PATH"] = str(scene.bin.resolve() / "kiln-ptxas")
            job = ["env", library_path, *job]
        elif with_kiln:
            # kilnctl may need libraries from the caller's LD_LIBRARY_PATH. The job must not find
            # them.
            environment["LD_LIBRARY_PATH"] = os.environ.get("LD_LIBRARY_PATH", "")
            environment["KILN_RTC_DEBUG"] = "1"
            job = [str(scene.bin / "kilnctl"), "run", "--explain", "--", "env", library_path, *job]
        else:
            job = ["env", library_path, *job]
        with open(f"{self.log}.out", "w", encoding="utf-8") as out, \
                open(f"{self.log}.err", "w", encoding="utf-8") as err:
            self.process = subprocess.Popen(job, env=environment, stdout=out, stderr=err)

    def text(self, kind):
        return pathlib.Path(f"{self.log}.{kind}").read_text(encoding="utf-8", errors="replace")

    def result(self):
        """Waits for the end, and returns the job's JSON and the counts of kilnctl."""
        status = self.process.wait(WAIT_MAX_S)
        if status == SKIPPED:
            print(self.text("err")[-3000:], file=sys.stderr)
            sys.exit(SKIPPED)
        lines = self.text("out").splitlines()
        if status != 0 or not lines:
            print(self.text("err")[-3000:], file=sys.stderr)
            return None
        counts = COUNTS.search(self.text("err"))
        return json.loads(lines[-1]) | {
            "counts": [int(n) for n in counts.groups()] if counts else [0, 0, 0, 0],
            "reasons": REASONS.findall(self.text("err"))}


class Scene:
    """The runs of one program."""

    def __init__(self, options, program):
        self.program = program
        self.bin = options.bin
        self.job = options.job or HERE / (
            "triton_job.py" if program == "triton" else "drop_in_job.py")
        self.library_path = options.library_path
        self.logs = options.logs
        self.homes = options.homes
        self.results = {}
        self.by_kilnd = {}  # number of programs that kilnd itself compiled in each run
        self.wrong = []

    def new_home(self, name):
        home = self.homes / f"{self.program}-{name}"
        home.mkdir()
        return home

    def clear(self):
        subprocess.run([self.bin / "kilnctl", "clear", "--all", "--yes"], check=True,
                       stdout=subprocess.DEVNULL)

    def stats(self):
        """Returns kilnd's counts since it started."""
        stats = subprocess.run([self.bin / "kilnctl", "stats", "--json"], check=True,
                               stdout=subprocess.PIPE).stdout
        return json.loads(stats)

    def together(self, name, with_kiln):
        """Runs eight processes that begin their first call at the same moment."""
        start = self.homes / f"{self.program}-{name}-start"
        processes = [Process(self, f"{name}-{i}", self.new_home(f"{name}-{i}"), with_kiln, start)
                     for i in range(PROCESSES)]
        end = time.monotonic() + WAIT_MAX_S
        while not all(p.ready.exists() or p.process.poll() is not None for p in processes):
            if time.monotonic() > end:
                sys.exit(f"waited {WAIT_MAX_S} s for eight processes to start")
            time.sleep(0.01)
        start.touch()
        return [p.result() for p in processes]

    def run(self, name):
        with_kiln = name in ("cold", "warm", "eight")
        if name in ("cold", "eight"):
            self.clear()
        before = self.stats()
        if name.endswith("eight"):
            results = self.together(name, with_kiln)
        else:
            home = self.homes / f"{self.program}-plain" if name == "filled" else \
                self.new_home(name)
            results = [Process(self, name, home, with_kiln).result()]
        if None in results:
            self.wrong.append(f"a process of the run '{name}' failed")
        self.results[name] = [r for r in results if r]
        after = self.stats()
        self.by_kilnd[name] = after["client_programs"] - before["client_programs"]
        if self.program == "triton":  # kiln-ptxas prints nothing
            for r in self.results[name]:
                r["counts"] = [0, *(after[n] - before[n] for n in ("client_hits",
                                                                   "client_compiles")), 0]
        self.show(name)

    def show(self, name):
        results = self.results[name]
        if not results:
            return
        counts = [sum(r["counts"][i] for r in results) for i in range(4)]
        print(f"{results[0]['version']}, {name}: "
              f"{max(r['seconds'] for r in results):.2f} s in first uses "
              f"({max(r['cpu_seconds'] for r in results):.2f} s of a processor; "
              f"{max(r['start_seconds'] for r in results):.1f} s start); "
              f"{self.ptxas_of(results[0])}"
              f"{counts[1]} answered, {counts[2]} stored, {counts[3]} compiled without kilnd, "
              f"{self.by_kilnd[name]} by kilnd",
              flush=True)
        for reason in sorted({x for r in results for x in r["reasons"]}):
            print(f"    {reason}")
        for r in results:
            for function, error in r["failed"].items():
                print(f"    {function} failed: {error}")

    def ptxas_of(self, result):
        """Returns a part of the line that show() prints."""
        return f"{result['ptxas_runs']} times ptxas, {result['ptxas_seconds']:.2f} s; " \
            if "ptxas_runs" in result else ""

    def check(self):
        """Checks the aims of the runs that were made."""
        everything = [r for results in self.results.values() for r in results]
        if not everything:
            return
        first = everything[0]["digests"]
        for r in everything:
            different = [n for n in first if r["digests"].get(n) != first[n]]
            if different or r["failed"]:
                self.wrong.append(f"results differ or failed: {different} {list(r['failed'])}")
        warm = self.results.get("warm")
        if warm:
            most = WARM_MAX_S.get(self.program, math.inf)
            self.expect(warm[0]["seconds"] <= most,
                        f"warm: {warm[0]['seconds']} s, more than {most}")
            self.expect(warm[0]["counts"][1] > 0, "warm: kilnd answered nothing")
            self.expect(warm[0]["counts"][2:] == [0, 0] and not self.by_kilnd["warm"],
                        "warm: kilnd did not answer all from its store")
        if self.results.get("eight") and self.results.get("cold"):
            self.check_eight(self.results["eight"], self.results["cold"][0])

    def check_eight(self, eight, alone):
        slowest = max(r["seconds"] for r in eight)
        compiled = self.by_kilnd["eight"] + sum(sum(r["counts"][2:]) for r in eight)
        once = self.by_kilnd["cold"] + sum(alone["counts"][2:])
        self.expect(once > 0, "cold: nothing was compiled")
        self.expect(compiled == once, f"eight: {compiled} compiles, one process alone {once}")
        self.expect(slowest <= EIGHT_RATIO_MAX * alone["seconds"],
                    f"eight: {slowest} s, one process alone {alone['seconds']} s")

    def expect(self, is_true, text):
        if not is_true:
            self.wrong.append(text)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--runs", default=",".join(RUNS))
    parser.add_argument("--library-path", default="")
    parser.add_argument("--logs", type=pathlib.Path)
    parser.add_argument("--job", type=pathlib.Path)
    parser.add_argument("programs", nargs="*", default=["cupy", "torch"])
    return parser.parse_args()


def main():
    options = parse()
    wrong = []
    with tempfile.TemporaryDirectory(prefix="kiln-drop-in-") as directory:
        options.homes = pathlib.Path(directory)
        options.logs = options.logs or options.homes
        options.logs.mkdir(exist_ok=True)
        for program in options.programs:
            scene = Scene(options, program)
            for name in options.runs.split(","):
                if program != "triton" or name in TRITON_RUNS:
                    scene.run(name)
            scene.check()
            wrong += [f"{program}: {text}" for text in scene.wrong]
    for text in wrong:
        print(f"drop_in: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
