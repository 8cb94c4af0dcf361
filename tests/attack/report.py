# SPDX-License-Identifier: MIT
"""The results of attacks as text, JSON and Markdown."""
from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
from typing import Any

import figures
import victim as victims

NAMES = [operation.name for operation in victims.OPERATIONS]


def time_of(ms: float) -> str:
    if math.isnan(ms):
        return "-"
    if ms >= 1000:
        return f"{ms / 1000:.1f} s"
    return f"{ms:.1f} ms" if ms >= 1 else f"{ms:.2f} ms"


def size_of(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size >> 20} MiB"


def memory_text(memory: figures.Memory) -> str:
    return f"{size_of(memory.quiet)} → {size_of(memory.peak)}"


def text_of(outcome: figures.Outcome) -> str:
    """A block for the terminal."""
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
    lines += [f"note: {note}" for note in outcome.notes]
    lines += [f"BROKEN: {sentence}" for sentence in outcome.broken] or ["all bounds hold"]
    return "\n".join(lines) + "\n"


# ---- Markdown ----

def cell(outcome: figures.Outcome, name: str) -> str:
    quiet, attacked = outcome.quiet[name], outcome.attacked[name]
    return f"{time_of(quiet.p50_ms)} / {time_of(quiet.p99_ms)} → " \
           f"{time_of(attacked.p50_ms)} / {time_of(attacked.p99_ms)}"


def markdown_of(outcomes: list[figures.Outcome]) -> str:
    """Two tables: of the attacks on time and memory, and of the others."""
    lines = ["p50 / p99, quiet → under attack.", "",
             f"| attack | {' | '.join(NAMES)} | kilnd's memory | bounds |",
             "| --- |" + " --- |" * (len(NAMES) + 2)]
    for outcome in outcomes:
        if outcome.memory:
            cells = [f"`{outcome.attack}`: {outcome.says}"]
            cells += [cell(outcome, name) for name in NAMES]
            cells += [memory_text(outcome.memory), "broken" if outcome.broken else "hold"]
            lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| attack | what happens |", "| --- | --- |"]
    for outcome in outcomes:
        if not outcome.memory:
            happens = "; ".join(outcome.broken) or "nothing: it is refused or has no effect"
            lines.append(f"| `{outcome.attack}`: {outcome.says} | {happens} |")
    return "\n".join(lines) + "\n"


# ---- files ----

def machine() -> dict[str, Any]:
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        models = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")]
    return {"cpu": models[0] if models else platform.machine(),
            "cpus": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "load": os.getloadavg()[0]}


def without_nan(value: Any) -> Any:
    """JSON has no nan: null instead."""
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
                 "seconds": given.seconds, "rounds": given.rounds, "short": given.short,
                 "not_run": not_run,
                 "attacks": [without_nan(outcome.to_json()) for outcome in outcomes]}
        given.json.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", "utf-8")
    if given.markdown:
        given.markdown.write_text(markdown_of(outcomes), "utf-8")
