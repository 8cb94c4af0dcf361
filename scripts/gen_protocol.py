#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the tables of docs/protocol.md from the headers and .def tables of the code.

Usage: scripts/gen_protocol.py [--check]

Each table is between '<!-- begin generated: NAME -->' and '<!-- end generated -->'; the rest of the
page is written by hand. --check changes nothing, and fails if a table is outdated.
"""
import re
import sys
import textwrap

import tree

PAGE = tree.ROOT / "docs/protocol.md"
PROTOCOL = tree.ROOT / "common/protocol"
MARKED = re.compile(r"(<!-- begin generated: (\w+) -->\n)(.*?)(<!-- end generated -->)", re.S)
COMMENT = r"/\*(?:(?!\*/)[\s\S])*\*/"


def tidy(comment):
    """Returns the words of a C comment on one line, escaped for a table."""
    text = re.sub(r"^\s*/\*+|\*/\s*$|^\s*\*", " ", comment, flags=re.M)
    return " ".join(text.replace("|", "").split())


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "| " + " | ".join("---" for _ in header) + " |"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def read(name):
    return (PROTOCOL / name).read_text()


# ---- common/protocol/messages.def

REQUEST = re.compile(r'^KILN_REQUEST\((\w+),\s*(\d+),\s*(\w+),\s*(\w+),\s*"(.*?)"\)', re.M)
REPLY = re.compile(r'^KILN_REPLY\((\w+),\s*(\d+),\s*(\w+),\s*"(.*?)"\)', re.M)
FIELDS = re.compile(r"(/\*(?:(?!\*/).)*\*/\s*\n)?#define KILN_FIELDS_(\w+)\(F\)"
                    r"((?:[^\n]*\\\n)*[^\n]*)", re.S)
FIELD = re.compile(r"F\((\w+),\s*(\w+)\)\s*(/\*.*?\*/)?")
RECORDS = re.compile(r"^#define KILN_RECORDS\(R\)((?:.*\\\n)*.*)$", re.M)


def messages():
    """Returns (requests, replies, {name: (note, fields)}, record names) of messages.def."""
    text = read("messages.def")
    fields = {}
    for note, name, body in FIELDS.findall(text):
        # A section's headline is not a comment on the first message below it.
        note = "" if "----" in note else tidy(note)
        fields[name] = (note, [(kind, field, tidy(remark)) for kind, field, remark
                               in FIELD.findall(body.replace("\\\n", "\n"))])
    records = re.findall(r"R\((\w+)\)", RECORDS.search(text).group(1))
    return REQUEST.findall(text), REPLY.findall(text), fields, records


def generate_messages():
    requests, replies, _, _ = messages()
    rows = [(number, f"`{name}`", "client", who.lower(), body.lower(), purpose)
            for name, number, who, body, purpose in requests]
    rows += [(number, f"`{name}`", "daemon", "", body.lower(), purpose)
             for name, number, body, purpose in replies]
    return table(("type", "name", "sent by", "who may", "body", "purpose"), rows)


def field_table(name, fields):
    note, rows = fields[name]
    note = textwrap.fill(note, 100, break_long_words=False, break_on_hyphens=False)
    if not rows:
        return f"#### `{name}`\n\n{note}\n"
    text = table(("type", "field", "meaning"), [(k, f"`{f}`", r) for k, f, r in rows])
    return f"#### `{name}`\n\n" + (f"{note}\n\n" if note else "") + text


def generate_bodies():
    requests, replies, fields, _ = messages()
    names = [r[0] for r in requests if r[3] == "BINARY"]
    names += [r[0] for r in replies if r[2] == "BINARY"]
    return "\n".join(field_table(name, fields) for name in names)


def generate_records():
    _, _, fields, records = messages()
    return "\n".join(field_table(name, fields) for name in records)


# ---- the other tables and headers

STAT = re.compile(r'^(?:STAT|HOSTED|LEVEL)\((\w+), (\w+), "(.*?)",(?: .*,)? "(.*?)"\)$', re.M)
STAT_ROW = re.compile(r"^(?:STAT|HOSTED|LEVEL)\(", re.M)


def sample(metric, labels, values):
    pairs = ",".join(f'{label}="{value}"' for label, value in zip(labels.split(), values.split()))
    return f"`kiln_{metric}{{{pairs}}}`" if pairs else f"`kiln_{metric}`"


def generate_counters():
    text = (tree.ROOT / "engine/service/metrics/metrics.def").read_text()
    rows = STAT.findall(text)
    if len(rows) != len(STAT_ROW.findall(text)):
        sys.exit("gen_protocol: cannot parse some lines of metrics.def")
    labels = dict(re.findall(r'^METRIC\((\w+), \w+, "(.*?)"', text, re.M))
    return table(("counter", "metric", "what it counts"),
                 [(f"`{re.sub('^hits_', 'hits.', name)}`",
                   "" if metric == "none" else sample(metric, labels[metric], values), purpose)
                  for name, metric, values, purpose in rows])


def generate_options():
    """Returns one row for each group of options_allowed.def, with its comment and its options."""
    text = (tree.ROOT / "engine/compile/options_allowed.def").read_text().split("*/", 1)[1]
    rows = []
    for note, kind, option in re.findall(r'/\*(.*?)\*/|ALLOWED_(\w+)\("(.*?)"\)', text):
        if note:
            rows.append((note.strip().rstrip("."), []))
        else:
            rows[-1][1].append(f"`{option}{'*' if kind == 'VALUE' else ''}`")
    return table(("for", "options"), [(group, " ".join(options)) for group, options in rows])


CODE = re.compile(r'^KILN_CODE\((\w+),\s*(\d+),\s*(\w+),\s*"(.*?)"\)', re.M)
RETRY = {"NEVER": "no", "SAME_HOST": "once, on this host", "LATER": "later"}


def generate_codes():
    return table(("code", "name", "retry?", "meaning"),
                 [(number, f"`{name}`", RETRY[retry], text)
                  for name, number, retry, text in CODE.findall(read("../base/err_codes.def"))])


def number(text):
    """Returns the value of an expression such as '8u << 20', '253u' or '(256u << 20)'."""
    left, _, shift = text.strip().strip("()").partition("<<")
    return int(left.strip().rstrip("u")) << int(shift.strip().rstrip("u") or 0)


def generate_limits():
    rows, note = [], ""
    pattern = re.compile(r"/\*.*?\*/|#define (LIMIT_\w+)\s+([^\n/]+)", re.S)
    for found in pattern.finditer(read("limits.h").split("#pragma once")[1]):
        if not found.group(1):
            note = tidy(found.group(0))
        else:
            rows.append((f"`{found.group(1)}`", number(found.group(2)), note))
    return table(("limit", "value", "of what"), rows)


def enum_rows(header, enum, prefix):
    """Yields enumerators with their comments, each of which is on the same line or on the line
    before."""
    body = re.search(rf"enum {enum} {{(.*?)}};", read(header), re.S).group(1)
    enumerator = rf"({COMMENT})?\s*\b{prefix}(\w+)(?: = (\d+))?,?[ \t]*({COMMENT})?"
    rows, value = [], 0
    for above, name, given, beside in re.findall(enumerator, body):
        value = int(given or value)
        rows.append((value, f"`{name.lower()}`", tidy(beside or above)))
        value += 1
    return rows


ENUMS = (
    ("direction", "problem.h", "direction", "DIRECTION_"),
    ("layout", "problem.h", "layout", "LAYOUT_"),
    ("data type", "problem.h", "data_type", "TYPE_"),
    ("tier", "messages.h", "tier", "TIER_"),
    ("role", "messages.h", "role", "ROLE_"),
    ("priority", "messages.h", "priority", "PRIORITY_"),
    ("lease result", "messages.h", "lease_result", "LEASE_RESULT_"),
    ("argument kind", "messages.h", "argument_kind", "ARGUMENT_"),
    ("plan source", "messages.h", "plan_source", "PLAN_SOURCE_"),
)


def generate_enums():
    rows = [(title if value == 0 else "", value, name, note)
            for title, header, enum, prefix in ENUMS
            for value, name, note in enum_rows(header, enum, prefix)]
    return table(("enumeration", "value", "name", ""), rows)


CONSTANT = re.compile(rf"^(?:({COMMENT})\n)?#define "
                      r"(FRAME_VERSION\w*|FRAME_MORE|FRAME_STOPPING|NO_DESCRIPTOR|FETCH_\w+|"
                      r"PLAN_\w+|SOLUTION_\w+|TUNING_\w+|"
                      r"LEASE_[A-Z]+|"
                      rf"CAPABILITY_\w+) (\w+)[ \t]*({COMMENT})?$", re.M)


def generate_constants():
    rows = [(f"`{name}`", value.rstrip("u"), tidy(beside or above))
            for header in ("frame.h", "messages.h")
            for above, name, value, beside in CONSTANT.findall(read(header))]
    return table(("constant", "value", ""), rows)


def generate_problem():
    """Returns rows for the 26 numbers of PROBLEM, from the declaration of struct problem."""
    body = re.search(r"struct problem {(.*?)\n};", read("problem.h"), re.S).group(1)
    rows = []
    for kind, names, note in re.findall(r"(uint32_t|struct extent) ([^;]+);\s*(/\*.*?\*/)?", body):
        for name in re.split(r",\s*", names):
            parts = [f".{axis}" for axis in "dhw"] if kind == "struct extent" else [""]
            rows += [(f"`{name}{part}`", tidy(note)) for part in parts]
    return table(("offset", "field", ""),
                 [(4 * place, *row) for place, row in enumerate(rows)])


GENERATORS = {
    "messages": generate_messages, "bodies": generate_bodies, "records": generate_records,
    "codes": generate_codes, "limits": generate_limits, "enums": generate_enums,
    "constants": generate_constants, "problem": generate_problem, "counters": generate_counters,
    "options": generate_options,
}


def main():
    page = PAGE.read_text()
    fresh = MARKED.sub(lambda m: m[1] + "\n" + GENERATORS[m[2]]() + "\n" + m[4], page)
    missing = set(GENERATORS) - {m[2] for m in MARKED.finditer(page)}
    if missing:
        print(f"docs/protocol.md has no place for: {', '.join(sorted(missing))}", file=sys.stderr)
        return 1
    if "--check" not in sys.argv:
        PAGE.write_text(fresh)
        return 0
    if fresh != page:
        print("docs/protocol.md is stale: run scripts/gen_protocol.py", file=sys.stderr)
        return 1
    print("docs/protocol.md agrees with the code")
    return 0


if __name__ == "__main__":
    sys.exit(main())
