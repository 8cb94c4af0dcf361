# SPDX-License-Identifier: MIT
"""Compares NVRTC with and without libkiln-rtc, with generated programs."""
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import generated
from conftest import BUILD, Daemon

HERE = pathlib.Path(__file__).resolve().parent
NVRTC = pathlib.Path(os.environ.get("KILN_RTC_NVRTC", "/usr/local/cuda/lib64/libnvrtc.so.13"))
PRELOAD = BUILD / "lib/libkiln-rtc.so.0"
BATCH = 50
BATCH_MAX_S = 900
PLAIN_AGAIN = 12  # how many more times NVRTC compiles a program whose results differed
DIRECTORIES = ("first", "second", "third", "sub")


def output_of(result):
    """Returns the name of the output that a call gets, such as "PTX"."""
    return result[0].rpartition(" ")[2]


class Sweep:
    """Runs cases in batches. Each run is one process."""

    def __init__(self, daemon, directory):
        self.environment = dict(daemon.environment, KILN_RTC_DEBUG="1", KILN_RTC_PATIENCE="60000")
        self.directory = directory
        self.said = collections.Counter()
        self.programs = 0
        self.repeated = 0  # number of results that differ between two runs of NVRTC itself
        self.differences = []

    def write_files(self, seeds, chosen):
        """Writes the headers of one variant. A file that is the same in both variants keeps its
        time."""
        for seed in seeds:
            variant = generated.generate(seed)["AB".index(chosen)]
            root = self.directory / str(seed)
            for directory in DIRECTORIES:
                (root / directory).mkdir(parents=True, exist_ok=True)
            for old in root.rglob("*.h"):
                if str(old.relative_to(root)) not in variant.files:
                    old.unlink()
            for path, text in variant.files.items():
                file = root / path
                if not file.exists() or file.read_text() != text:
                    file.write_text(text)

    def run(self, seeds, chosen, preload):
        environment = dict(self.environment, **({"LD_PRELOAD": str(PRELOAD)} if preload else {}))
        done = subprocess.run(
            [sys.executable, str(HERE / "replay.py"), str(NVRTC), str(self.directory), chosen,
             *map(str, seeds)], env=environment, cwd="/", text=True, capture_output=True,
            timeout=BATCH_MAX_S, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode or len(lines) != len(seeds):
            raise RuntimeError(f"the run of {chosen} ended with {done.returncode} at case "
                               f"{seeds[len(lines)] if len(lines) < len(seeds) else 'none'}: "
                               f"{done.stderr}{PRELOAD if preload else 'without libkiln-rtc'}")
        for line in lines:
            self.said.update(line["said"])
        return lines

    def unstable(self, seed, chosen, plain, wanted):
        """Returns the outputs that differ between runs of NVRTC itself. Stops when all outputs in
        |wanted| have differed."""
        found = set()
        for _ in range(PLAIN_AGAIN):
            again = self.run([seed], chosen, preload=False)[0]["results"]
            found |= {output_of(x) for x, y in zip(plain, again) if x != y}
            if wanted <= found:
                break
        return found

    def compare(self, what, chosen, plain, other):
        """Compares one run with the run without libkiln-rtc."""
        for expected, got in zip(plain, other):
            seed = expected["seed"]
            pairs = list(zip(expected["results"], got["results"]))
            differing = {i for i, (x, y) in enumerate(pairs) if x != y}
            if differing:
                unstable = self.unstable(seed, chosen, expected["results"],
                                         {output_of(pairs[i][0]) for i in differing})
                skipped = {i for i in differing if output_of(pairs[i][0]) in unstable}
                self.repeated += len(skipped)
                differing -= skipped
            for i in sorted(differing):
                self.differences.append(
                    f"case {seed} {chosen}, {what}: {pairs[i][0]} without libkiln-rtc, "
                    f"{pairs[i][1]} with it; it said {got['said']}")

    def compare_answers(self, cold, warm):
        """Checks that an answer of kilnd equals what the program compiled before, whatever NVRTC
        would return now."""
        for x, y in zip(cold, warm):
            if "answered by kilnd" not in y["said"] or len(y["said"]) != 1:
                continue
            for before, now in zip(x["results"], y["results"]):
                if before != now:
                    self.differences.append(f"case {x['seed']} A, warm: {before} when it was "
                                            f"compiled, {now} when it was answered")

    def batch(self, seeds):
        runs = {}
        for chosen in "AB":
            self.write_files(seeds, chosen)
            # waits until a file that is written from now on gets a later time than these files
            time.sleep(0.02)
            plain = self.run(seeds, chosen, preload=False)
            for what in "cold", "warm":
                runs[what] = self.run(seeds, chosen, preload=True)
                self.compare(what, chosen, plain, runs[what])
            if chosen == "A":
                self.compare_answers(runs["cold"], runs["warm"])
            self.programs += len(seeds)
        for seed in seeds:
            shutil.rmtree(self.directory / str(seed))

    def report(self):
        print(f"{self.programs} programs, each without libkiln-rtc and twice with it: "
              f"{len(self.differences)} differences")
        print(f"{self.repeated} results were skipped, because NVRTC itself does not repeat them")
        for reason, count in self.said.most_common():
            print(f"{count:8} compiles: {reason}")
        for difference in self.differences[:100]:
            print(difference[:2000])


def sweep(count, first, seconds):
    """Compares |count| cases, which are twice as many programs. Begins no batch of cases after
    |seconds|. Returns the Sweep."""
    daemon = Daemon()
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="kiln-rtc-sweep-") as directory:
        try:
            daemon.start()
            s = Sweep(daemon, pathlib.Path(directory))
            for at in range(first, first + count, BATCH):
                s.batch(range(at, min(at + BATCH, first + count)))
                if time.monotonic() > end:
                    break
            return s
        finally:
            daemon.remove()
