#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares kiln with cuDNN, problem by problem, from JSON lines of gpu_trials, cudnn_baseline and
torch_baseline.py.

Usage: tests/gpu/compare.py [--peaks FILE] [--untuned FILE]... [--json FILE] [--markdown FILE]
                            [FILE]...

The fastest correct trial of each problem counts. The files of --untuned have trials of the solvers
and configs that kiln chooses without measurements. The status is 1 if a time is impossible, or if
kiln chooses ConvDirectNaive without measurements.

The floor is the longer of two times: moving each tensor once at the speed of a copy, and doing the
multiply-adds at the arithmetic's peak. The speed and the peak are those that gpu_peaks measured on
the same GPU (--peaks). The field "binds" says which of the two times is longer. A time may be below
the floor, because the L2 cache is faster than a copy, and Winograd's algorithm needs fewer
multiply-adds.
"""
import argparse
import json
import math
import os
import sys

WORST = 10
OTHERS = ("cuDNN", "PyTorch")
NAIVE = "ConvDirectNaive"
# Limits for measured times. The floor is the time that a problem takes at the GPU's peak rates. A
# correct time may be below the floor: operands may stay in the L2 cache, and Winograd's algorithm
# needs at best a quarter of a 3x3 filter's multiply-adds. A time below these limits is an error,
# because the program cannot have computed this problem.
L2_FACTOR = 5
WINOGRAD_FACTOR = 5
CLOCK_FACTOR = 1.2


def read(paths, untuned=()):
    """Returns for each problem {'kiln': fastest row, 'untuned': row of the untuned choice, 'cuDNN'
    and 'PyTorch': fastest row, 'wrong': rows}, in the order of the files. 'choice' is the untuned
    row even if it was wrong or not timed. 'none' says that cuDNN has no engine."""
    problems = {}
    for path, kind in [(p, "untuned") for p in untuned] + [(p, "kiln") for p in paths]:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                who = row["solver"] if row["solver"] in OTHERS else kind
                best = problems.setdefault(row["label"], {})
                if who == "untuned":
                    best["choice"] = row
                if row["state"] == "none" and who != "PyTorch":
                    best["none"] = True
                if row["state"] in ("slow", "out of time", "none"):
                    continue
                if row["state"] != "ok":
                    best.setdefault("wrong", []).append(row)
                elif row["us"] > 0 and (who not in best or row["us"] < best[who]["us"]):
                    best[who] = row
    return problems


def arithmetic_of(row, peaks):
    """Returns the peak for the row's type, in TFLOP/s.

    TF32 has half the rate of fp16, because operands are twice as wide.
    """
    if row["type"] == "tf32":
        return peaks["fp16_tflops"] / 2 if peaks.get("fp16_tflops") else None
    return peaks.get("fp32_tflops" if row["type"] == "fp32" else "fp16_tflops")


def floor_of(row, peaks):
    """Returns (the floor in microseconds, what binds), or (None, None) without peaks."""
    arithmetic = arithmetic_of(row, peaks)
    if not arithmetic or not peaks.get("copy_gbps"):
        return None, None
    memory_us = row["bytes"] / peaks["copy_gbps"] * 1e-3
    arithmetic_us = row["flops"] / arithmetic * 1e-6
    return (memory_us, "bytes") if memory_us > arithmetic_us else (arithmetic_us, "flops")


def impossible(row, peaks):
    """Returns why the row's time is impossible for its problem, or None."""
    arithmetic = arithmetic_of(row, peaks)
    if not arithmetic or not peaks.get("copy_gbps") or not row["us"]:
        return None
    memory_us = row["bytes"] / (peaks["copy_gbps"] * L2_FACTOR) * 1e-3
    filtered = " -y 1 -x 1 " not in f"{row['problem']} "
    factor = WINOGRAD_FACTOR if filtered else CLOCK_FACTOR
    if row["type"] == "fp32" and peaks.get("fp16_tflops"):
        factor = max(factor, peaks["fp16_tflops"] / 2 / arithmetic)  # TF32
    arithmetic_us = row["flops"] / (arithmetic * factor) * 1e-6
    for name, least in (("moving its tensors", memory_us), ("its arithmetic", arithmetic_us)):
        if row["us"] < least:
            return f"{row['us']:.1f} µs, but {name} takes {least:.1f} µs at least"
    return None


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


TIMED = ("kiln", "untuned", *OTHERS)


def figures(best, peaks):
    row = next(best[who] for who in (*TIMED, "choice") if who in best)
    floor_us, binds = floor_of(row, peaks)
    result = {"label": row["label"], "problem": row["problem"], "type": row["type"],
              "layout": row["layout"], "direction": row["direction"], "floor_us": floor_us,
              "binds": binds, "no_cuDNN": best.get("none", False) and "cuDNN" not in best}
    for who in TIMED:
        result[f"{who}_us"] = best[who]["us"] if who in best else None
        result[f"{who}_tflops"] = row["flops"] / best[who]["us"] * 1e-6 if who in best else None
    for field in ("solver", "config", "workspace", "spread"):
        result[field] = best.get("kiln", {}).get(field)
    for field in ("solver", "config"):
        result[f"untuned_{field}"] = best.get("choice", {}).get(field)
    if "kiln" in best and "cuDNN" in best:
        result["ratio"] = best["cuDNN"]["us"] / best["kiln"]["us"]
    if "untuned" in best and "cuDNN" in best:
        result["untuned_ratio"] = best["cuDNN"]["us"] / best["untuned"]["us"]
    if "kiln" in best and "PyTorch" in best:
        result["torch_ratio"] = best["PyTorch"]["us"] / best["kiln"]["us"]
    if "untuned" in best and "kiln" in best:
        result["untuned_loss"] = best["untuned"]["us"] / best["kiln"]["us"]
    return result


def means(rows, field="ratio"):
    """Returns [(what, count, geometric mean of the field)], by type and layout."""
    result = []
    for key in sorted({(r["type"], r["layout"]) for r in rows}):
        for direction in ("F", "B", "W", None):
            values = [r[field] for r in rows if (r["type"], r["layout"]) == key and field in r
                      and direction in (None, r["direction"])]
            result.append((f"{key[0]} {key[1]} {direction or 'all'}", len(values),
                           geometric_mean(values)))
    return result


def ratio_of(row):
    """Returns the tuned ratio, or the untuned one if nothing was tuned."""
    return row.get("ratio", row.get("untuned_ratio"))


def worst(rows):
    """Returns the rows with the lowest ratios, for each type and layout."""
    result = []
    for key in sorted({(r["type"], r["layout"]) for r in rows}):
        compared = [r for r in rows if (r["type"], r["layout"]) == key and ratio_of(r)]
        result += sorted(compared, key=ratio_of)[:WORST]
    return result


def number(value, digits):
    return "-" if value is None else format(value, f".{digits}f")


COLUMNS = ("problem", "kiln µs", "untuned µs", "TFLOP/s", "cuDNN µs", "PyTorch µs", "ratio",
           "floor µs", "binds",
           "tuned", "config", "untuned", "config")


def cells(r):
    return (r["label"], number(r["kiln_us"], 1), number(r["untuned_us"], 1),
            number(r["kiln_tflops"] or r["untuned_tflops"], 1),
            "none" if r["no_cuDNN"] else number(r["cuDNN_us"], 1), number(r["PyTorch_us"], 1),
            number(ratio_of(r), 2),
            number(r["floor_us"], 1), r["binds"] or "-", r["solver"] or "-", r["config"] or "",
            r["untuned_solver"] or "-", r["untuned_config"] or "")


def print_table(rows):
    widths = (46, 9, 10, 8, 9, 10, 6, 9, 6, 17, 28, 17, 0)
    for row in [COLUMNS] + [cells(r) for r in rows]:
        text = "".join(f"{c:<{w}} " if i in (0, 8, 9, 10, 11, 12) else f"{c:>{w}} "
                       for i, (c, w) in enumerate(zip(row, widths)))
        print(text.rstrip())


MEANS = (("ratio", "cuDNN : kiln"), ("torch_ratio", "PyTorch : kiln"),
         ("untuned_ratio", "cuDNN : untuned kiln"),
         ("untuned_loss", "untuned kiln : tuned"))


def print_markdown(rows, file):
    print("| " + " | ".join(COLUMNS) + " |", file=file)
    print("| --- |" + " --: |" * 7 + " --- |" * 5, file=file)
    for r in rows:
        print("| " + " | ".join(cells(r)) + " |", file=file)
    for field, title in MEANS:
        print(file=file)
        print(f"| geometric mean of {title} | problems | ratio |", file=file)
        print("| --- | --: | --: |", file=file)
        for what, count, mean in means(rows, field):
            print(f"| {what} | {count} | {number(mean, 3)} |", file=file)


def print_summary(rows, problems):
    for field, title in MEANS:
        for what, count, mean in means(rows, field):
            if count or field == "ratio":
                print(f"geometric mean of {title}, {what}: {number(mean, 3)} over {count}")
    missing = [r["label"] for r in rows if r["no_cuDNN"]]
    print(f"cuDNN has no engine for {len(missing)} of {len(rows)} problems")
    print("the worst:")
    print_table(worst(rows))
    wrong = [row for best in problems.values() for row in best.get("wrong", [])]
    for row in wrong:
        print(f"{row['state']}: {row['label']} {row['solver']} {row['config']}: "
              f"{row.get('text', '')}")
    print(f"{len(wrong)} trials were not right")


def print_naive(rows):
    """Returns whether kiln chooses ConvDirectNaive for any problem without measurements."""
    naive = [r for r in rows if r["untuned_solver"] == NAIVE]
    for r in naive:
        print(f"NAIVE: {r['label']}: {NAIVE} is chosen without measurements "
              f"({number(r['untuned_us'], 1)} µs; tuned {number(r['kiln_us'], 1)} µs by "
              f"{r['solver'] or '-'})")
    return bool(naive)


def print_impossible(problems, peaks):
    """Returns whether any time is impossible."""
    found = False
    for best in problems.values():
        for who in TIMED:
            why = impossible(best[who], peaks) if who in best else None
            if why:
                print(f"IMPOSSIBLE: {best[who]['solver']}, {best[who]['label']}: {why}")
                found = True
    return found


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--peaks", help="what gpu_peaks printed")
    parser.add_argument("--untuned", action="append", default=[])
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    parser.add_argument("--summary", action="store_true", help="without the table")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args(arguments)
    peaks = {}
    if options.peaks and os.path.exists(options.peaks):
        with open(options.peaks, encoding="utf-8") as file:
            peaks = json.load(file)
    problems = read(options.files, options.untuned)
    rows = [figures(best, peaks) for best in problems.values()
            if any(who in best for who in (*TIMED, "choice"))]
    if not options.summary:
        print_table(rows)
    print_summary(rows, problems)
    is_naive = print_naive(rows)
    is_impossible = print_impossible(problems, peaks)
    if not peaks:
        print("no peaks: impossible times go unnoticed")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"peaks": peaks, "problems": rows,
                       "means": [{"what": f"{title}, {w}", "count": c, "ratio": m}
                                 for field, title in MEANS for w, c, m in means(rows, field)]},
                      file, indent=1)
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as file:
            print_markdown(rows, file)
    return is_naive or is_impossible


if __name__ == "__main__":
    sys.exit(main())
