#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints how long a job takes to start, from the JSON lines of first_pass and cudnn_first_pass.

Usage: tests/gpu/startup.py [--markdown FILE] FILE

Each case is represented by the median of its runs. "ratio" is a case's time divided by the time of
the cold case of the same type.
"""
import argparse
import json
import statistics

PHASES = ("open_s", "ahead_s", "plan_s", "load_s", "launch_s")


def read(path):
    """Returns {case: rows}, in the file's order."""
    cases = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            cases.setdefault(row["case"], []).append(row)
    return cases


def median_of(rows, field):
    values = [r[field] for r in rows if field in r]
    return statistics.median(values) if values else None


def table(cases):
    """Returns rows of text: case, runs, seconds, min, max, ratio, phases."""
    rows = []
    for case, runs in cases.items():
        seconds = [r["seconds"] for r in runs]
        cold = cases.get(case.split()[0] + " cold")
        ratio = statistics.median(seconds) / median_of(cold, "seconds") if cold else None
        phases = [median_of(runs, phase) for phase in PHASES]
        rows.append([case, str(len(runs)), f"{statistics.median(seconds):.3f}",
                     f"{min(seconds):.3f}", f"{max(seconds):.3f}",
                     "-" if ratio is None else f"{ratio:.3f}"]
                    + ["-" if p is None else f"{p:.3f}" for p in phases])
    return rows


COLUMNS = ["case", "runs", "seconds", "min", "max", "ratio", "open", "ask ahead", "plan", "load",
           "launch"]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--markdown")
    parser.add_argument("file")
    options = parser.parse_args(arguments)
    rows = table(read(options.file))
    for row in [COLUMNS] + rows:
        print(f"{row[0]:<24}" + "".join(f"{cell:>10}" for cell in row[1:]))
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as file:
            print("| " + " | ".join(COLUMNS) + " |", file=file)
            print("| --- |" + " --: |" * (len(COLUMNS) - 1), file=file)
            for row in rows:
                print("| " + " | ".join(row) + " |", file=file)


if __name__ == "__main__":
    main()
