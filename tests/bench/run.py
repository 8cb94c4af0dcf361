# SPDX-License-Identifier: MIT
"""Runs the benchmarks one after another, and prints their results next to the limits that they must
keep.

Usage: python3 tests/bench/run.py --bin DIR --work DIR [--quick] [--only NAME]... [--json FILE]
                                  [--markdown FILE]
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys

import report

PROGRAMS = ("fetch", "batch", "cold", "compile", "first", "start", "store", "disk",
            "sandbox", "tuning", "rtc")
PROGRAM_MAX_S = 360
HERE = pathlib.Path(__file__).resolve().parent


def parse(argv):
    p = argparse.ArgumentParser(description="Measure kiln against its budgets.")
    p.add_argument("--bin", type=pathlib.Path, required=True,
                   help="directory of the built programs")
    p.add_argument("--work", type=pathlib.Path, required=True, help="made, and removed at the end")
    p.add_argument("--quick", action="store_true", help="fewer rounds, without the largest stores")
    p.add_argument("--only", action="append", choices=PROGRAMS, metavar="NAME",
                   help=f"one of {', '.join(PROGRAMS)}; may be given several times")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE")
    p.add_argument("--markdown", type=pathlib.Path, metavar="FILE")
    return p.parse_args(argv)


def machine():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        models = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")]
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"cpu": models[0] if models else platform.machine(),
            "cpus": len(os.sched_getaffinity(0)), "memory_gib": round(pages / (1 << 30), 1),
            "kernel": platform.release(), "load_before": os.getloadavg()[0]}


def read_results(name, text):
    """Returns the JSON lines of one benchmark. Skips incomplete lines."""
    results = []
    for line in text.splitlines():
        try:
            results.append(json.loads(line))
        except ValueError:
            print(f"bench: '{name}' printed a line that is not a result: {line[:80]}",
                  file=sys.stderr)
    return results


def run_program(name, options):
    """Returns the results, and why the benchmark failed, or None."""
    program, script = options.bin / f"bench_{name}", HERE / f"bench_{name}.py"
    if not program.exists() and not script.exists():
        return [], f"'{program}' was not built"
    work = options.work / name
    shutil.rmtree(work, ignore_errors=True)
    start = [sys.executable, "-B", str(script)] if script.exists() else [str(program)]
    command = [*start, "--bin", str(options.bin), "--work", str(work)]
    if options.quick:
        command.append("--quick")
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = child.communicate(timeout=PROGRAM_MAX_S)
    except subprocess.TimeoutExpired:
        child.kill()  # its servers and clients end with it
        out, err = child.communicate()
        err += f"\nstill running after {PROGRAM_MAX_S} s"
    sys.stderr.write(err)
    why = None if child.returncode == 0 else (err.strip().splitlines() or ["no message"])[-1]
    if why is None:
        shutil.rmtree(work, ignore_errors=True)
    return read_results(name, out), why


def run_all(options):
    results, failed = [], []
    for name in options.only or PROGRAMS:
        print(f"-- {name}", file=sys.stderr)
        more, why = run_program(name, options)
        results += more
        if why:
            failed.append((name, why))
    return results, failed


def main(argv):
    options = parse(argv)
    options.bin, options.work = options.bin.resolve(), options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    here, began = machine(), datetime.datetime.now(datetime.timezone.utc)
    results, failed = run_all(options)
    left_out = [(name, "left out by --only") for name in PROGRAMS
                if options.only and name not in options.only]
    table = report.make_table(results, failed + left_out)
    print(f"{here['cpu']}, {here['cpus']} CPUs, {here['memory_gib']} GiB, Linux {here['kernel']}, "
          f"load before {here['load_before']:.2f}, {began:%Y-%m-%d %H:%M} UTC")
    print(report.text_of(table))
    if options.json:
        whole = {"began": began.isoformat(timespec="seconds"), "quick": options.quick,
                 "machine": here, "rows": table.rows, "not_run": table.not_run, "results": results}
        options.json.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", "utf-8")
    if options.markdown:
        options.markdown.write_text(report.markdown_of(table), "utf-8")
    if failed:
        print(f"bench: failed: {', '.join(name for name, _ in failed)}; logs are in "
              f"'{options.work}'", file=sys.stderr)
        return 1
    shutil.rmtree(options.work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
