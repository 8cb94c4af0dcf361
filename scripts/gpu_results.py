#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Evaluates kiln-driver's --json results of many problems, for scripts/test-gpu and
scripts/bench-gpu.

Usage: scripts/gpu_results.py verified FILE         every problem's result was compared, and is
                                                    correct
       scripts/gpu_results.py found FILE            every solver of every problem agrees with the
                                                    reference on the GPU
       scripts/gpu_results.py measured FILE         results of find or tune: checks the timed
                                                    solvers of each problem
       scripts/gpu_results.py chosen FILE           prints solver, perf config and problem in lines
                                                    for gpu_trials --chosen
       scripts/gpu_results.py sample N FILE SEED    prints N of FILE's command lines (if N is 0,
                                                    all), always the same ones for a seed
       scripts/gpu_results.py merged FILE...        prints the results of all files as one document
       scripts/gpu_results.py first FILE [no-compile]
                                                    every problem has a plan, and nothing was
                                                    measured (nor compiled) for it
       scripts/gpu_results.py shared DIRECTORY      the journals say that few configs were run by
                                                    more than one process
       scripts/gpu_results.py begun COLD WARM       results of job_steps: COLD's first step took at
                                                    most FIRST_MAX times as long as WARM's, plus the
                                                    time of its compiles
       scripts/gpu_results.py ended TUNED JOB       results of job_steps: the last plans of JOB take
                                                    at most SLOWER_MAX times the time of TUNED's
       scripts/gpu_results.py lost JOB              a result of job_steps: the steps took at most
                                                    LOST_MAX times as long as without the thread
       scripts/gpu_results.py waited JOB            a result of job_steps: the first step waited for
                                                    no compile, and less than WAITED_MAX for each
                                                    plan
       scripts/gpu_results.py planned BEFORE AFTER  AFTER timed nothing, used what BEFORE found, and
                                                    its kernels took as long: the median of the
                                                    ratios is from 0.9 to 1.1

The exit status is 1 if the condition does not hold.
"""
import hashlib
import json
import pathlib
import statistics
import sys

TIMED = ("TIMED", "CUT_SHORT")
BAD = ("WRONG", "NOT_COMPILED", "NOT_RUN")
# Limits of the median, over the problems of a network, of the second process's time divided by the
# first's. The ratio of a single problem varies by up to an eighth, but the median stayed within
# 3 %. If the median is outside the limits, the records made the second process choose other
# kernels or another perf config.
RATIO_MIN, RATIO_MAX = 0.9, 1.1
SLOWER_MAX = 1.03  # of a plan that was improved beside a job, compared with a tuned one
FIRST_MAX = 1.3  # of a first step on a cold host without compiles, compared with a warm one
LOST_MAX = 1.05  # of steps beside which a thread measures, compared with the same steps alone
WAITED_MAX = 0.0005  # seconds: 0 ms, when rounded
REPEATED_MAX = 0.1  # part of the runs of configs that another process had done before


def document(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def results(path):
    return document(path)["results"]


def verified(path):
    rows = results(path)
    good = [r for r in rows if r.get("ok") and r.get("checked") and r.get("wrong") == 0]
    for r in rows:
        if r not in good:
            print(f"not right: {r.get('command')}: {r.get('error', r)}")
    print(f"{len(good)} of {len(rows)} problems verified, largest error "
          f"{max((r['largest_error'] for r in good), default=0):.3g}")
    return len(good) == len(rows) > 0


def solvers_of(row):
    return row.get("find", {}).get("solvers", [])


def states_of(rows):
    states = {}
    for r in rows:
        for s in solvers_of(r):
            states[s["state"]] = states.get(s["state"], 0) + 1
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items()))


def unrecorded(rows):
    """Returns the problems whose times kilnd did not store."""
    lost = [r for r in rows if r.get("find", {}).get("recorded") is False]
    for r in lost:
        print(f"not recorded: {r.get('command')}: {r['find'].get('not_recorded')}")
    return lost


def is_right(row):
    """Returns whether the chosen solver was compared and no other solver failed."""
    solvers = solvers_of(row)
    taken = [s for s in solvers if s["solver"] == row.get("solver")]
    return (row.get("ok") and len(taken) == 1 and taken[0]["state"] == "TIMED"
            and taken[0]["checked"] > 0 and not any(s["state"] in BAD for s in solvers))


def found(path):
    rows = results(path)
    good = [r for r in rows if is_right(r)]
    for r in rows:
        if r not in good:
            reasons = [f"{s['solver']} {s['state']} {s.get('reason', '')}" for s in solvers_of(r)
                       if s["state"] in BAD]
            print(f"not right: {r.get('command')}: {r.get('error', '')} {'; '.join(reasons)}")
    checked = sum(s["checked"] for r in good for s in solvers_of(r))
    print(f"{len(good)} of {len(rows)} problems right on the GPU, {checked} elements compared; "
          f"solvers: {states_of(rows)}")
    return len(good) == len(rows) > 0 and not unrecorded(rows)


def measured(path):
    rows = results(path)
    tried = sum(len(r.get("find", {}).get("trials", [])) for r in rows)
    bad = [r for r in rows if not r.get("ok")
           or not any(s["state"] in TIMED for s in solvers_of(r))]
    for r in bad:
        print(f"nothing timed: {r.get('command')}: {r.get('error', '')}")
    print(f"{len(rows) - len(bad)} of {len(rows)} problems, {tried} perf configs tried; solvers: "
          f"{states_of(rows)}")
    return not bad and bool(rows) and not unrecorded(rows)


def chosen(path):
    good = [r for r in results(path) if r.get("ok")]
    for r in good:
        print(r["solver"], r.get("config") or "-", r["command"], sep="\t")
    return bool(good)


def sample(count, path, seed):
    """Takes lines by a hash of their text and the seed, so that shapes and directions mix."""
    prefix = b"" if seed == "0" else seed.encode()
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file if line.startswith("conv")]
    ordered = sorted(lines, key=lambda line: hashlib.sha256(prefix + line.encode()).digest())
    taken = set(ordered[:int(count) or None])
    sys.stdout.writelines(line for line in lines if line in taken)
    return bool(lines)


def took_as_long(ratios):
    if not ratios:
        print("no times of both processes to compare")
        return False
    median = statistics.median(ratios)
    print(f"time of the second process : of the first: median {median:.3f}, "
          f"least {min(ratios):.3f}, most {max(ratios):.3f}")
    if not RATIO_MIN <= median <= RATIO_MAX:
        print(f"not as long: the median is not within {RATIO_MIN} and {RATIO_MAX}")
        return False
    return True


def planned(before_path, after_path):
    before = {r["command"]: r for r in results(before_path)}
    after = results(after_path)
    good, ratios = 0, []
    for r in after:
        b = before.get(r.get("command"), {})
        timed = [s for s in solvers_of(r) if s["state"] in TIMED]
        same = (b.get("solver"), b.get("config")) == (r.get("solver"), r.get("config"))
        if r.get("ok") and same and not timed:
            good += 1
            if b["times"].get("steady_s") and r["times"].get("steady_s"):
                ratios.append(r["times"]["steady_s"] / b["times"]["steady_s"])
            continue
        print(f"not from the database: {r.get('command')}: {b.get('solver')} {b.get('config')} "
              f"before, now {r.get('solver')} {r.get('config')}, {len(timed)} timed")
    print(f"{good} of {len(after)} problems planned from the database, nothing timed")
    return took_as_long(ratios) and good == len(after) == len(before) > 0


def merged(*paths):
    json.dump({"results": [row for path in paths for row in results(path)]}, sys.stdout)
    return True


def first(path, condition=""):
    rows = results(path)
    planned = [r for r in rows if r.get("ok") and r.get("provisional")
               and not any(s["state"] in TIMED for s in solvers_of(r))]
    for r in rows:
        if r not in planned:
            print(f"no plan at once: {r.get('command')}: {r.get('error', r.get('solver'))}")
    compiled = sum(k["tier"] == "compiled" for r in rows for k in r.get("kernels", []))
    generic = sum(r["provisional"]["solver"].startswith("ConvGeneric") for r in planned)
    print(f"{len(planned)} of {len(rows)} problems had a plan at once, {generic} of them generic; "
          f"{compiled} kernels were compiled; {seconds_of(planned):.3f} s in all")
    return len(planned) == len(rows) > 0 and not (condition and compiled)


def seconds_of(rows):
    return sum(r["times"]["find_s"] + r["times"]["fetch_s"] + r["times"]["load_s"] for r in rows)


def shared(directory):
    runs = [(path.name, line.split("\t")[1]) for path in sorted(pathlib.Path(directory).glob("*"))
            for line in path.read_text(encoding="utf-8").splitlines() if line.startswith(">\t")]
    repeated = len(runs) - len(set(runs))
    print(f"{len(set(runs))} configs were run, {repeated} of them again by another process")
    return bool(runs) and repeated <= REPEATED_MAX * len(runs)


def begun(cold_path, warm_path):
    cold, warm = document(cold_path)["first"], document(warm_path)["first"]
    limit = FIRST_MAX * warm["seconds"] + cold["compile_s"]
    print(f"first step: {cold['seconds']:.3f} s, of which {cold['wait_s']:.3f} s for plans "
          f"({cold['compiled']} kernels compiled in {cold['compile_s']:.3f} s, {cold['generic']} "
          f"plans generic) and {cold['load_s']:.3f} s for loading")
    print(f"a warm one: {warm['seconds']:.3f} s, {warm['wait_s']:.3f} s and {warm['load_s']:.3f} "
          f"s; so the limit is {limit:.3f} s")
    return cold["seconds"] <= limit


def ended(tuned_path, job_path):
    tuned, job = document(tuned_path), document(job_path)
    ratio = job["device_s"] / tuned["device_s"]
    best = {p["command"]: p for p in tuned["problems"]}
    slower = [(p["ms"] - best[p["command"]]["ms"], p) for p in job["problems"]]
    for lost_ms, p in sorted(slower, key=lambda row: -row[0])[:5]:
        b = best[p["command"]]
        if p["ms"] > SLOWER_MAX * b["ms"]:
            print(f"{lost_ms:.3f} ms longer, {p['ms'] / b['ms']:.2f} times: {p['command']}: "
                  f"{p['solver']} {p['config']}, not {b['solver']} {b['config']}"
                  f"{'' if p['tuned'] else ' (not tuned yet)'}")
    print(f"last plans: {sum(p['tuned'] for p in job['problems'])} of {len(slower)} problems "
          f"tuned; all launches take {1e3 * job['device_s']:.3f} ms, {ratio:.3f} times the tuned "
          f"ones; a step takes {1e3 * job['step_s']:.3f} ms, {job['step_s'] / tuned['step_s']:.3f} "
          "times")
    return ratio <= SLOWER_MAX


def lost(path):
    steps = document(path)["steps"]
    ratio = steps["seconds"] / steps["undisturbed_s"] if steps["count"] else float("nan")
    print(f"{steps['count']} steps took {steps['seconds']:.3f} s, {ratio:.3f} times as long as "
          f"alone, the longest {1e3 * steps['longest_s']:.3f} ms; {steps['plans']} plans, the last "
          f"after {steps['improved_s']:.1f} s")
    return ratio <= LOST_MAX


def waited(path):
    job = document(path)
    each = job["first"]["wait_s"] / len(job["problems"])
    print(f"waited {1e3 * each:.3f} ms for each of {len(job['problems'])} plans; "
          f"{job['first']['compiled']} kernels were compiled")
    return not job["first"]["compiled"] and each < WAITED_MAX


def main(arguments):
    commands = {"verified": (verified, 1), "found": (found, 1), "measured": (measured, 1),
                "chosen": (chosen, 1), "sample": (sample, 3), "planned": (planned, 2),
                "merged": (merged, None), "first": (first, None), "shared": (shared, 1),
                "begun": (begun, 2), "ended": (ended, 2), "lost": (lost, 1), "waited": (waited, 1)}
    command, count = commands.get(arguments[0] if arguments else None, (None, 0))
    if not command or count not in (None, len(arguments) - 1):
        print(__doc__, file=sys.stderr)
        return 2
    return 0 if command(*arguments[1:]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
