#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the table of docs/operations/metrics.md from engine/service/metrics/metrics.def.

Usage: scripts/gen_metrics.py [--check]

--check changes nothing. It fails if the table is outdated, or if the dashboard or the alert rules
name a metric or a label that kilnd does not have.
"""
import json
import re
import sys

import tree

TABLE = tree.ROOT / "engine/service/metrics/metrics.def"
DIRECTORY = tree.ROOT / "docs/operations"
PAGE = DIRECTORY / "metrics.md"
MARKED = re.compile(r"(<!-- begin generated: metrics -->\n)(.*?)(<!-- end generated -->)", re.S)
METRIC = re.compile(r'^METRIC\((\w+),\s*(\w+),\s*"(.*?)",\s*"(.*?)"\)', re.M)
UNITS = {"seconds": "seconds", "bytes": "bytes"}
NAME = re.compile(r"\bkiln_\w+")
SELECTOR = re.compile(r"\b(kiln_\w+)\{([^}]*)\}")
SUFFIXES = ("_bucket", "_sum", "_count")


def metrics():
    """Returns {name with prefix: (type, labels, help)}, in the order of the table."""
    text = TABLE.read_text()
    found = {f"kiln_{name}": (kind.lower(), labels.split(), help_)
             for name, kind, labels, help_ in METRIC.findall(text)}
    if len(found) != text.count("\nMETRIC("):
        sys.exit("gen_metrics: cannot parse some lines of metrics.def")
    return found


def unit_of(name):
    words = name.removesuffix("_total").split("_")
    return UNITS.get(words[-1], "")


def table(known):
    lines = ["| metric | type | labels | unit | meaning |", "| --- | --- | --- | --- | --- |"]
    for name, (kind, labels, help_) in known.items():
        shown = " ".join(f"`{label}`" for label in labels)
        lines.append(f"| `{name}` | {kind} | {shown} | {unit_of(name)} | {help_} |")
    return "\n".join(lines) + "\n"


def base_name(name, known):
    """Returns the family that a series belongs to, or None."""
    if name in known:
        return name
    for suffix in SUFFIXES:
        base = name.removesuffix(suffix)
        if base != name and known.get(base, ("",))[0] == "histogram":
            return base
    return None


def complain(text, where, known):
    """Yields complaints about the names and labels in |text|."""
    for name in sorted(set(NAME.findall(text))):
        if base_name(name, known) is None:
            yield f"{where}: kilnd has no metric '{name}'"
    for name, selector in SELECTOR.findall(text):
        base = base_name(name, known)
        labels = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', "", selector))
        for label in labels:
            if base and label not in known[base][1] + ["le", "instance", "job"]:
                yield f"{where}: '{base}' has no label '{label}'"


def expressions(node):
    """Yields every "expr" of a dashboard."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "expr":
                yield value
            else:
                yield from expressions(value)
    elif isinstance(node, list):
        for value in node:
            yield from expressions(value)


def main():
    known = metrics()
    before = PAGE.read_text()
    if not MARKED.search(before):
        sys.exit(f"gen_metrics: {PAGE} has no place for the table")
    after = MARKED.sub(lambda m: m.group(1) + "\n" + table(known) + "\n" + m.group(3), before)
    check = "--check" in sys.argv[1:]
    if not check:
        PAGE.write_text(after)
    complaints = [] if after == before or not check else [
        f"{PAGE.name} is stale: run scripts/gen_metrics.py"]
    dashboard = json.loads((DIRECTORY / "kiln-dashboard.json").read_text())
    complaints += complain("\n".join(expressions(dashboard)), "kiln-dashboard.json", known)
    rules = re.sub(r"#.*", "", (DIRECTORY / "kiln-alerts.yml").read_text())
    complaints += complain(rules, "kiln-alerts.yml", known)
    print("\n".join(complaints) or f"{len(known)} metrics are documented, dashboard and alerts "
          f"know them")
    return bool(complaints)


if __name__ == "__main__":
    sys.exit(main())
