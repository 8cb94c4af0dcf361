# SPDX-License-Identifier: MIT
"""The hand-written parts of the manual: docs/man/*.txt.

A file has parts of one or more pages. A line 'page NAME(SECTION): SUMMARY' begins a part; the
summary is left out if the code has one. A line '## HEADING' begins a section of the part.
"""
import re

_PAGE = re.compile(r"^page ([\w.-]+)\((\d)\)(?:: (.+))?$")


class Part:
    def __init__(self, name, section, summary, origin):
        self.name, self.section, self.summary, self.origin = name, section, summary, origin
        self.sections = []  # (heading, text)


def _parts_of(path):
    part, heading, lines = None, None, []

    def flush():
        if part and heading:
            part.sections.append((heading, "\n".join(lines)))

    for number, line in enumerate(path.read_text().splitlines(), 1):
        begins = _PAGE.match(line)
        if begins:
            flush()
            if part:
                yield part
            part = Part(begins[1], int(begins[2]), begins[3], f"{path.name}:{number}")
            heading, lines = None, []
        elif line.startswith("## "):
            flush()
            heading, lines = line[3:].strip(), []
        elif heading is not None:
            lines.append(line)
        elif line.strip():
            raise SystemExit(f"{path}:{number}: text before the first 'page' or '##' line")
    flush()
    if part:
        yield part


def read(directory):
    """Returns {(name, section): Part} for every file of |directory|."""
    parts = {}
    for path in sorted(set(directory.glob("*.txt")) - {directory / "CMakeLists.txt"}):
        for part in _parts_of(path):
            if (part.name, part.section) in parts:
                raise SystemExit(f"{part.origin}: {part.name}({part.section}) occurs twice")
            parts[part.name, part.section] = part
    return parts
