#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kiln beside cuDNN, problem by problem, from the JSON lines of gpu_trials and cudnn_baseline.

Usage: tests/gpu/compare.py [--peaks FILE] [--json FILE] [--markdown FILE] FILE...

The best right trial of each problem counts. The floor is the longer of moving each tensor once at
the speed of a copy and of doing the multiply-adds at the arithmetic's peak, as gpu_peaks measured
both on the same GPU (--peaks); "binds" says which. What lies in the L2 cache is quicker than a
copy, and Winograd's algorithm does fewer multiply-adds: either may go below the floor.
"""
import argparse
import json
import math
import sys

WORST = 5
# What may lie below the floor: operands that stay in the L2 cache, and Winograd's algorithm, which
# does a quarter of the multiply-adds of a 3x3 filter at best. Anything quicker measures another
# problem.
L2_FACTOR = 5
WINOGRAD_FACTOR = 5
CLOCK_FACTOR = 1.2


def read(paths):
    """Per problem: {'kiln': fastest row, 'cuDNN': fastest row, 'wrong': rows}, in the files' order."""
    problems = {}
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                who = "cuDNN" if row["solver"] == "cuDNN" else "kiln"
                best = problems.setdefault(row["label"], {})
                if row["state"] in ("slow", "out of time", "none"):
                    continue
                if row["state"] != "ok":
                    best.setdefault("wrong", []).append(row)
                elif row["us"] > 0 and (who not in best or row["us"] < best[who]["us"]):
                    best[who] = row
    return problems


def arithmetic_of(row, peaks):
    """TFLOP/s of the row's type. TF32 operands are twice as wide as fp16: half as many a second."""
    if row["type"] == "tf32":
        return peaks["fp16_tflops"] / 2 if peaks.get("fp16_tflops") else None
    return peaks.get("fp32_tflops" if row["type"] == "fp32" else "fp16_tflops")


def floor_of(row, peaks):
    """(microseconds below which nothing can be, what binds), or (None, None) without peaks."""
    arithmetic = arithmetic_of(row, peaks)
    if not arithmetic or not peaks.get("copy_gbps"):
        return None, None
    memory_us = row["bytes"] / peaks["copy_gbps"] * 1e-3
    arithmetic_us = row["flops"] / arithmetic * 1e-6
    return (memory_us, "bytes") if memory_us > arithmetic_us else (arithmetic_us, "flops")


def impossible(row, peaks):
    """Why the row's time cannot be one of its problem, or None."""
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


def figures(best, peaks):
    row = best.get("kiln") or best.get("cuDNN")
    floor_us, binds = floor_of(row, peaks)
    result = {"label": row["label"], "problem": row["problem"], "type": row["type"],
              "layout": row["layout"], "direction": row["direction"], "floor_us": floor_us,
              "binds": binds}
    for who in ("kiln", "cuDNN"):
        result[f"{who}_us"] = best[who]["us"] if who in best else None
        result[f"{who}_tflops"] = row["flops"] / best[who]["us"] * 1e-6 if who in best else None
    for field in ("solver", "config", "workspace", "spread"):
        result[field] = best.get("kiln", {}).get(field)
    if "kiln" in best and "cuDNN" in best:
        result["ratio"] = best["cuDNN"]["us"] / best["kiln"]["us"]
    return result


def means(rows):
    """[(what, count, geometric mean of cuDNN's time : kiln's)], by type and layout."""
    result = []
    for key in sorted({(r["type"], r["layout"]) for r in rows}):
        for direction in ("F", "B", "W", None):
            ratios = [r["ratio"] for r in rows if (r["type"], r["layout"]) == key and "ratio" in r
                      and direction in (None, r["direction"])]
            result.append((f"{key[0]} {key[1]} {direction or 'all'}", len(ratios),
                           geometric_mean(ratios)))
    return result


def worst(rows):
    """Of each type and layout: the rows with the least ratios."""
    result = []
    for key in sorted({(r["type"], r["layout"]) for r in rows}):
        compared = [r for r in rows if (r["type"], r["layout"]) == key and "ratio" in r]
        result += sorted(compared, key=lambda r: r["ratio"])[:WORST]
    return result


def number(value, digits):
    return "-" if value is None else format(value, f".{digits}f")


COLUMNS = ("problem", "kiln µs", "TFLOP/s", "cuDNN µs", "ratio", "floor µs", "binds", "solver",
           "config")


def cells(r):
    return (r["label"], number(r["kiln_us"], 1), number(r["kiln_tflops"], 1),
            number(r["cuDNN_us"], 1), number(r.get("ratio"), 2), number(r["floor_us"], 1),
            r["binds"] or "-", r["solver"] or "-", r["config"] or "")


def print_table(rows):
    widths = (44, 9, 8, 9, 6, 9, 6, 17, 0)
    for row in [COLUMNS] + [cells(r) for r in rows]:
        text = "".join(f"{c:<{w}}" if i in (0, 7, 8) else f"{c:>{w}} "
                       for i, (c, w) in enumerate(zip(row, widths)))
        print(text.rstrip())


def print_markdown(rows, file):
    print("| " + " | ".join(COLUMNS) + " |", file=file)
    print("| --- |" + " --: |" * 5 + " --- |" * 3, file=file)
    for r in rows:
        print("| " + " | ".join(cells(r)) + " |", file=file)
    print(file=file)
    print("| geometric mean of cuDNN's time : kiln's | problems | ratio |", file=file)
    print("| --- | --: | --: |", file=file)
    for what, count, mean in means(rows):
        print(f"| {what} | {count} | {number(mean, 3)} |", file=file)


def print_summary(rows, problems):
    for what, count, mean in means(rows):
        print(f"geometric mean of cuDNN : kiln, {what}: {number(mean, 3)} over {count}")
    print("the worst:")
    print_table(worst(rows))
    wrong = [row for best in problems.values() for row in best.get("wrong", [])]
    for row in wrong:
        print(f"{row['state']}: {row['label']} {row['solver']} {row['config']}: "
              f"{row.get('text', '')}")
    print(f"{len(wrong)} trials were not right")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--peaks", help="what gpu_peaks printed")
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    parser.add_argument("--summary", action="store_true", help="without the table")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args(arguments)
    peaks = {}
    if options.peaks:
        with open(options.peaks, encoding="utf-8") as file:
            peaks = json.load(file)
    problems = read(options.files)
    rows = [figures(best, peaks) for best in problems.values()
            if "kiln" in best or "cuDNN" in best]
    if not options.summary:
        print_table(rows)
    print_summary(rows, problems)
    wrong = [(best[who], impossible(best[who], peaks)) for best in problems.values()
             for who in ("kiln", "cuDNN") if who in best]
    for row, why in wrong:
        if why:
            print(f"IMPOSSIBLE: {row['solver']}, {row['label']}: {why}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"peaks": peaks, "problems": rows,
                       "means": [{"what": w, "count": c, "ratio": m} for w, c, m in means(rows)]},
                      file, indent=1)
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as file:
            print_markdown(rows, file)
    return any(why for _, why in wrong)


if __name__ == "__main__":
    sys.exit(main())
