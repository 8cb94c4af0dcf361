#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the results that scripts/test-emulated wrote to FILE as a Markdown table, with a list of
the failures.

Usage: result_table.py FILE

FILE has one case in each line, with tabs between its fields: target, solver, shape, type, layout,
direction and result. If a case is there several times, the last one counts.
"""
import sys

FIELDS = 7
VALUES = (("F", "B", "W"), ("fp32", "fp16", "bf16"), ("NCHW", "NHWC"))


def read_cases(lines):
    """Returns {(solver, shape): {target: {(direction, type, layout): result}}}, without cases to
    which the solver does not apply. Raises ValueError if a line is not complete."""
    rows = {}
    for number, line in enumerate(lines, start=1):
        fields = line.rstrip("\n").split("\t")
        if len(fields) != FIELDS or not line.endswith("\n"):
            raise ValueError(f"line {number} is not a complete case: the file is not of "
                             "scripts/test-emulated, or its end is missing")
        target, solver, shape, kind, layout, direction, result = fields
        cases = rows.setdefault((solver, shape), {}).setdefault(target, {})
        cases.pop((direction, kind, layout), None)
        if result != "-":
            cases[direction, kind, layout] = result
    return rows


def cell(cases):
    right = sum(result == "ok" for result in cases.values())
    return f"{right} of {len(cases)}" if cases else "-"


def table(rows):
    """Returns the lines of a table. A cell says how many results are right, of how many."""
    targets = sorted({target for row in rows.values() for target in row},
                     key=lambda target: (len(target), target))
    lines = ["| solver | problem | directions | types | layouts | " + " | ".join(targets) + " |",
             "| --- " * (5 + len(targets)) + "|"]
    for names, row in rows.items():
        seen = [case for cases in row.values() for case in cases]
        ways = (", ".join(value for value in values if any(case[i] == value for case in seen))
                for i, values in enumerate(VALUES))
        cells = (cell(row.get(target, {})) for target in targets)
        lines.append("| " + " | ".join([*names, *ways, *cells]) + " |")
    return lines


def failures(rows):
    """Returns a line for each solver, target and type with failures: how many, and the first."""
    found = {}
    for (solver, _), row in rows.items():
        for target, cases in row.items():
            for (_, kind, _), result in cases.items():
                if result != "ok":
                    found.setdefault(f"{solver}, {target}, {kind}", []).append(result)
    return [f"- {name}: {len(results)} cases, such as `{results[0]}`"
            for name, results in found.items()]


def main():
    path = sys.argv[1]
    try:
        with open(path, encoding="utf-8") as file:
            rows = read_cases(file)
    except (OSError, ValueError) as error:
        sys.exit(f"cannot read '{path}': {error}")
    print("\n".join([*table(rows), "", *failures(rows)]))


if __name__ == "__main__":
    main()
