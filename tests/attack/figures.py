# SPDX-License-Identifier: MIT
"""Percentiles of the times for which a victim waits, and the bounds that they must keep."""
from __future__ import annotations

import math
import statistics
from typing import Any, Iterable, NamedTuple

import victim as victims

P99_FACTOR = 5
STEP_MS = 20.0  # time that kilnd's executors spend on a step before they let others run
# maximum growth of kilnd's memory by an attack, in bytes; above 0, because an allocator may keep
# freed memory
AFTER_MEMORY_MORE = 64 << 20
# bound for Options.short: long enough for a busy machine, because it must only tell a request that
# is served late from one that is not served during the attack
SHORT_WAIT_MAX_S = 60.0


def with_missed(samples: Iterable[victims.Sample], interval_s: float) -> list[victims.Sample]:
    """Adds the operations that would have begun while a longer operation blocked the victim.
    Without these operations, a wait of 20 s would count as little as a wait of 0.1 ms."""
    found = []
    for sample in samples:
        late = 0.0
        while late == 0.0 or sample.seconds - late > interval_s:
            found.append(victims.Sample(sample.start + late, sample.seconds - late, sample.code))
            late += interval_s
    return found


def percentile(values: list[float], part: float) -> float:
    """Returns the nearest-rank percentile, or nan if there are no values."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


class Wait(NamedTuple):
    """The waits of one operation in one window."""
    number: int  # number of samples
    p50_ms: float
    p99_ms: float
    max_ms: float
    failures: int  # number of answers with an unexpected code


def wait_of(operation: victims.Operation, samples: list[victims.Sample], begin: float,
            end: float) -> Wait:
    quick = [s.seconds for s in samples if s.seconds > 0]
    usual = percentile(quick, 0.25)
    interval = max(operation.interval_s, 0.0 if math.isnan(usual) else usual)
    inside = [s for s in with_missed(samples, interval) if begin <= s.start < end]
    ms = [s.seconds * 1e3 for s in inside]
    failures = sum(s.code not in (operation.expected, -1) for s in samples
                   if begin <= s.start < end)
    return Wait(len(ms), percentile(ms, 0.5), percentile(ms, 0.99), max(ms, default=math.nan),
                failures)


def median_wait(waits: list[Wait]) -> Wait:
    """Returns the median of several rounds."""
    def middle(values: Iterable[float]) -> float:
        known = [value for value in values if not math.isnan(value)]
        return statistics.median(known) if known else math.nan
    return Wait(sum(w.number for w in waits), middle(w.p50_ms for w in waits),
                middle(w.p99_ms for w in waits), max(w.max_ms for w in waits),
                sum(w.failures for w in waits))


def bound_ms(name: str, quiet: Wait) -> float:
    if name == victims.ECHO:
        return math.inf
    trivial_compile = quiet.p50_ms if name == victims.COMPILE else 0.0
    return P99_FACTOR * quiet.p99_ms + STEP_MS + trivial_compile


class Share(NamedTuple):
    """The operation whose p99 is the largest share of its bound."""
    part: float
    name: str


def largest_share(quiet: dict[str, Wait], now: dict[str, Wait]) -> Share:
    """Returns the largest share of a bound. An operation without an answer exceeds every bound."""
    return max(Share(wait.p99_ms / bound_ms(name, quiet[name]) if wait.number else math.inf, name)
               for name, wait in now.items())


def broken_waits(when: str, quiet: dict[str, Wait], now: dict[str, Wait]) -> list[str]:
    """Returns a message for each operation that waits longer than its bound, or is rejected."""
    found = []
    for name, wait in now.items():
        bound = bound_ms(name, quiet[name])
        if wait.p99_ms > bound or wait.number == 0:
            found.append(f"{name} {when}: p99 {wait.p99_ms:.1f} ms, bound {bound:.1f} ms")
        if wait.failures > quiet[name].failures:
            found.append(f"{name} {when}: {wait.failures} requests were refused")
    return found


def broken_short_waits(when: str, now: dict[str, Wait]) -> list[str]:
    """Returns a message for each operation that is rejected or waits longer than SHORT_WAIT_MAX_S,
    the bound of the short form for all operations."""
    found = []
    for name, wait in now.items():
        if wait.number == 0 or wait.max_ms > SHORT_WAIT_MAX_S * 1e3:
            found.append(f"{name} {when}: waited {wait.max_ms / 1e3:.1f} s")
        if wait.failures:
            found.append(f"{name} {when}: {wait.failures} requests were refused")
    return found


class Memory(NamedTuple):
    """Resident bytes of kilnd, and bytes of the code objects that kilnd and attackers have."""
    quiet: int
    peak: int
    after: int
    limit: int
    objects: int = 0
    objects_limit: int = 0

    def broken(self) -> list[str]:
        found = []
        if self.peak > self.limit:
            found.append(f"kilnd took {self.peak >> 20} MiB, limit {self.limit >> 20} MiB")
        if self.objects > self.objects_limit:
            found.append(f"kilnd and the attackers have {self.objects >> 20} MiB of code objects, "
                         f"limit {self.objects_limit >> 20} MiB")
        if self.after > self.quiet + AFTER_MEMORY_MORE:
            found.append(f"kilnd has {self.after >> 20} MiB after the attack, "
                         f"{self.quiet >> 20} MiB before")
        return found


class Outcome(NamedTuple):
    """The result of one attack."""
    attack: str
    finding: str
    says: str
    quiet: dict[str, Wait]
    attacked: dict[str, Wait]
    after: dict[str, Wait]
    memory: Memory | None
    broken: list[str]
    notes: list[str]
    busy: float = math.nan  # share of CPU time that was used in the quiet windows

    def to_json(self) -> dict[str, Any]:
        return {"attack": self.attack, "finding": self.finding, "says": self.says,
                "quiet": {k: w._asdict() for k, w in self.quiet.items()},
                "attacked": {k: w._asdict() for k, w in self.attacked.items()},
                "after": {k: w._asdict() for k, w in self.after.items()},
                "memory": self.memory._asdict() if self.memory else None,
                "broken": self.broken, "notes": self.notes, "busy": self.busy}
