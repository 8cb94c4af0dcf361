#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Print scripts/quickstart's table from the results of its steps; fail if a step failed.

Usage: scripts/quickstart_table.py DIR STEP...

For each STEP, DIR has the files STEP.json (output of the program), STEP.before.json and
STEP.after.json (output of kilnctl stats --json before and after it), and STEP.step.json (seconds,
exit status).
"""
import json
import pathlib
import sys

TIMES = (  # kiln-driver's phases: their names in its JSON and in the table
    ("plan_s", "  planning"),
    ("fetch_s", "  fetching kernels"),
    ("load_s", "  loading them"),
    ("first_s", "  first launches"),
    ("steady_s", "  steady launch, one of each"),
    ("check_s", "  data and CPU reference"),
)


def read(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def flat(stats):
    """Returns the counters of |stats|; each member of 'hits' becomes a counter such as 'hits.hot'.
    """
    counters = {k: v for k, v in stats.items() if isinstance(v, (int, float))}
    counters |= {f"hits.{k}": v for k, v in stats.get("hits", {}).items()}
    return counters


class Step:
    """The results of one step, from its own output and from the daemon's counters."""

    def __init__(self, directory, name):
        answer = read(directory / f"{name}.json")
        before, after = (flat(read(directory / f"{name}.{when}.json"))
                         for when in ("before", "after"))
        ran = read(directory / f"{name}.step.json")
        self.name = name
        self.counted = {k: after[k] - before.get(k, 0) for k in after}
        self.is_run = "summary" in answer
        self.own = answer.get("summary", answer)
        self.device = answer.get("model", "")
        self.seconds = ran.get("seconds")
        self.status = ran.get("status", "not run")

    def hits(self):
        return sum(v for k, v in self.counted.items() if k.startswith("hits."))

    def rows(self):
        """Returns label -> value, in the order of the table."""
        own, counted = self.own, self.counted
        rows = {
            "problems": own.get("problems"),
            "  verified": own.get("verified"),
            "  failed": own.get("failed"),
            "kernels": own.get("kernels"),
            "compiles": counted.get("compiles"),
            "hits": self.hits() if counted else None,
            "  from memory": counted.get("hits.hot"),
            "  from disk": counted.get("hits.disk"),
            "seconds": self.seconds,
        }
        times = own.get("times", {})
        rows |= {label: times.get(key) for key, label in TIMES}
        # Kernels from the cache have a compile time, too. In a step that compiled nothing, the row
        # would mislead, so such a step does not show the row.
        if counted.get("compiles"):
            rows["compilers' own seconds"] = times.get("compile_s", own.get("compile_s"))
        return rows

    def complaints(self):
        if self.status != 0:
            yield f"{self.name}: ended with status {self.status}"
        if not self.own.get("problems"):
            yield f"{self.name}: no problem was done"
        if self.own.get("failed"):
            yield f"{self.name}: {self.own['failed']} problems failed"
        if self.is_run and self.own.get("verified") != self.own.get("problems"):
            yield f"{self.name}: {self.own.get('verified')} of {self.own.get('problems')} verified"
        if self.counted.get("quarantined"):
            yield f"{self.name}: {self.counted['quarantined']} stored kernels were damaged"
        if self.name == "warm" and self.counted.get("compiles") != 0:
            yield f"warm: {self.counted.get('compiles')} compiles; all should have been hits"
        if self.name == "warm" and self.hits() < self.own.get("kernels", 1):
            yield f"warm: {self.hits()} hits for {self.own.get('kernels', 'no')} kernels"


def text(value):
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def print_table(steps):
    columns = [step.rows() for step in steps]
    heads = [step.name.replace("-", " ") for step in steps]
    widths = [max(len(head), 8) for head in heads]
    label_width = max(len(label) for label in columns[0])
    print(" " * label_width, *(h.rjust(w) for h, w in zip(heads, widths)), sep="  ")
    for label in columns[0]:
        values = [column.get(label) for column in columns]
        if any(value is not None for value in values):
            cells = (text(value).rjust(w) for value, w in zip(values, widths))
            print(label.ljust(label_width), *cells, sep="  ")


def main():
    directory = pathlib.Path(sys.argv[1])
    steps = [Step(directory, name) for name in sys.argv[2:]]
    device = next((step.device for step in steps if step.device), "unknown")
    print(f"device: {device}\n")
    print_table(steps)
    found = [complaint for step in steps for complaint in step.complaints()]
    if found:
        print("\n" + "\n".join(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
