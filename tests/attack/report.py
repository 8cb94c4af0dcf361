# SPDX-License-Identifier: MIT
"""Writes the results of attacks as text, JSON and Markdown."""
from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import textwrap
from typing import Any

import figures
import victim as victims

BEGIN, END = "<!-- attacks: begin -->", "<!-- attacks: end -->"
NAMES = [operation.name for operation in victims.OPERATIONS]


def time_of(ms: float) -> str:
    if not math.isfinite(ms):
        return "-"
    if ms >= 1000:
        return f"{ms / 1000:.1f} s"
    return f"{ms:.1f} ms" if ms >= 1 else f"{ms:.2f} ms"


def size_of(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size >> 20} MiB"


def memory_text(memory: figures.Memory) -> str:
    return f"{size_of(memory.quiet)} → {size_of(memory.peak)}"


def text_of(outcome: figures.Outcome) -> str:
    """Returns a block of text for the terminal."""
    lines = [f"== {outcome.attack} ({outcome.finding}): {outcome.says}"]
    if outcome.quiet:
        lines.append(f"{'':10}{'quiet p50':>12}{'p99':>10}{'attack p50':>14}{'p99':>10}"
                     f"{'after p50':>14}{'p99':>10}{'bound':>12}")
    for name in outcome.quiet:
        cells = [f"{name:10}"]
        for waits, width in ((outcome.quiet, 12), (outcome.attacked, 14), (outcome.after, 14)):
            cells.append(f"{time_of(waits[name].p50_ms):>{width}}"
                         f"{time_of(waits[name].p99_ms):>10}")
        bound = time_of(figures.bound_ms(name, outcome.quiet[name]))
        lines.append("".join(cells) + f"{bound:>12}")
    if outcome.memory:
        lines.append(f"memory    {memory_text(outcome.memory)}, afterwards "
                     f"{size_of(outcome.memory.after)}; limit {size_of(outcome.memory.limit)}")
        lines.append(f"objects   {size_of(outcome.memory.objects)} of kilnd and the attackers; "
                     f"limit {size_of(outcome.memory.objects_limit)}")
    lines += [f"note: {note}" for note in outcome.notes]
    lines += [f"BROKEN: {sentence}" for sentence in outcome.broken] or ["all bounds hold"]
    return "\n".join(lines) + "\n"


def ms_of(ms: float) -> str:
    """Returns the time with three digits."""
    if math.isnan(ms):
        return "-"
    return f"{ms:.2f}" if ms < 10 else f"{ms:.1f}" if ms < 100 else f"{ms:.0f}"


def cell(outcome: figures.Outcome, name: str) -> str:
    quiet, attacked = outcome.quiet[name], outcome.attacked[name]
    return f"{ms_of(quiet.p50_ms)} / {ms_of(quiet.p99_ms)} → " \
           f"{ms_of(attacked.p50_ms)} / {ms_of(attacked.p99_ms)}"


def share_cell(outcome: figures.Outcome, now: dict[str, figures.Wait]) -> str:
    share = figures.largest_share(outcome.quiet, now)
    return f"{share.part:.0%} ({victims.TITLES[share.name]})".replace("%", " %")


def memory_cell(memory: figures.Memory) -> str:
    return f"{memory.quiet >> 20} → {memory.peak >> 20}, then {memory.after >> 20}; " \
           f"{memory.limit >> 20}"


def load_table(outcomes: list[figures.Outcome]) -> list[str]:
    titles = [victims.TITLES[name] for name in NAMES]
    lines = [f"| attack | {' | '.join(titles)} | kilnd's memory, MiB; limit | of the bound, under "
             "attack | of the bound, 1 s after it | bounds |",
             "| --- |" + " --- |" * (len(NAMES) + 4)]
    for outcome in outcomes:
        assert outcome.memory
        cells = [f"`{outcome.attack}`"] + [cell(outcome, name) for name in NAMES]
        cells += [memory_cell(outcome.memory), share_cell(outcome, outcome.attacked),
                  share_cell(outcome, outcome.after),
                  "broken: " + "; ".join(outcome.broken) if outcome.broken else "hold"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def trust_table(outcomes: list[figures.Outcome]) -> list[str]:
    lines = ["| attack | what happens |", "| --- | --- |"]
    for outcome in outcomes:
        happens = "; ".join(outcome.broken) or "nothing: it is refused or has no effect"
        lines.append(f"| `{outcome.attack}`: {outcome.says} | {happens} |")
    return lines


def markdown_of(given: argparse.Namespace, outcomes: list[figures.Outcome]) -> str:
    """Returns how the attacks were measured, and two tables: one for attacks on time and memory,
    one for the others."""
    timed = [outcome for outcome in outcomes if outcome.memory]
    return "\n".join([textwrap.fill(said, 100) for said in conditions(given, timed)] +
                     load_table(timed) + [""] +
                     trust_table([outcome for outcome in outcomes if not outcome.memory])) + "\n"


def conditions(given: argparse.Namespace, timed: list[figures.Outcome]) -> list[str]:
    host, busy = machine(), sorted(outcome.busy for outcome in timed)
    day = datetime.datetime.now(datetime.timezone.utc).strftime("%-d %B %Y")
    said = f"{day}, {host['cpu']}, {host['cpus']} processors, Linux {host['kernel']}, release " \
           f"build. `scripts/attack`: the median of {given.rounds} rounds, windows of " \
           f"{given.seconds:.0f} s, load average {given.load:.1f} at the start."
    if busy:
        said += f" In the quiet windows, {busy[0]:.0%} to {busy[-1]:.0%} of the processors' time " \
                "was used, by the victim and by everything else."
    return [said.replace("%", " %"), "",
            "Times are p50 / p99 in ms: quiet → under attack. Memory is resident: quiet → its peak "
            "under attack, then afterwards.", ""]


def machine() -> dict[str, Any]:
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        models = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")]
    return {"cpu": models[0] if models else platform.machine(),
            "cpus": len(os.sched_getaffinity(0)), "kernel": platform.release()}


def without_nan(value: Any) -> Any:
    """Replaces nan by null, because JSON has no nan."""
    if isinstance(value, dict):
        return {key: without_nan(one) for key, one in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_files(given: argparse.Namespace, outcomes: list[figures.Outcome],
                not_run: list[tuple[str, str]]) -> None:
    if given.json:
        now = datetime.datetime.now(datetime.timezone.utc)
        whole = {"ended": now.isoformat(timespec="seconds"), "machine": machine(),
                 "load": given.load, "seconds": given.seconds, "rounds": given.rounds,
                 "short": given.short,
                 "not_run": not_run,
                 "attacks": [without_nan(outcome.to_json()) for outcome in outcomes]}
        given.json.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", "utf-8")
    if given.markdown:
        given.markdown.write_text(markdown_of(given, outcomes), "utf-8")
    if given.docs:
        replace_table(given.docs, markdown_of(given, outcomes))


def replace_table(page: pathlib.Path, table: str) -> None:
    before, rest = page.read_text("utf-8").split(BEGIN, 1)
    page.write_text(f"{before}{BEGIN}\n{table}{END}{rest.split(END, 1)[1]}", "utf-8")
