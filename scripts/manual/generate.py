#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the manual pages and the shells' completions.

Usage: scripts/manual/generate.py TABLES OUT

TABLES is the output of the program manual_tables (cli/manual/tables.c). Writes OUT/man/manN/ and
OUT/completions/. docs/man/ has the parts that are written by hand. The date on the pages is
SOURCE_DATE_EPOCH or, if it is not set, the date of the newest input.
"""
import json
import os
import pathlib
import re
import shutil
import sys
import time

import bash
import library
import programs
import roff
import texts
import zsh

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TEXTS = ROOT / "docs/man"
HEADERS = ROOT / "libclient/include/kiln"
TOOLCHAINS = ROOT / "engine/compile/toolchain.c"


def date_of(tables):
    inputs = [tables, *TEXTS.iterdir(), *HEADERS.iterdir()]
    seconds = os.environ.get("SOURCE_DATE_EPOCH") or max(p.stat().st_mtime for p in inputs)
    return time.strftime("%Y-%m-%d", time.gmtime(float(seconds)))


def read_summaries(path):
    """Returns {function: one line} from docs/man/functions.list."""
    lines = (line.split(None, 1) for line in path.read_text().splitlines()
             if line.strip() and not line.startswith("#"))
    return {name: text.strip() for name, text in lines}


def known_targets():
    """Returns the targets that `kilnctl toolchain ls --all` tries. Completion also offers those of
    the running kilnd."""
    text = TOOLCHAINS.read_text()
    listed = re.search(r"toolchain_known_targets\[\] = \{(.*?)\}", text, re.S)[1]
    return re.findall(r'"(\w+)"', listed)


def by_hand(part):
    """Returns a page that is written by hand completely."""
    page = roff.Page(part.name, part.section, part.summary)
    for heading, text in part.sections:
        page.add(heading, roff.blocks(text))
    return page


def all_pages(tables, parts):
    yield from programs.Programs(tables, parts).pages()
    yield from library.Library(HEADERS, read_summaries(TEXTS / "functions.list")).pages(parts)
    yield by_hand(parts["kiln", 7])
    yield by_hand(parts["kiln-cc", 1])


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[1])
    source, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    tables, parts = json.loads(source.read_text()), texts.read(TEXTS)
    date, made = date_of(source), set()
    for directory in ("man", "completions"):  # so that removed commands leave no page
        shutil.rmtree(out / directory, ignore_errors=True)
    for page in all_pages(tables, parts):
        made.add((page.name, page.section))
        write(out / f"man/man{page.section}/{page.name}.{page.section}",
              page.text(date, tables["version"]))
    for part in parts.values():
        if (part.name, part.section) not in made:
            sys.exit(f"{part.origin}: the page {part.name}({part.section}) does not exist")
    (out / "man/man1/kiln-ptxas.1").symlink_to("kiln-cc.1")
    targets = known_targets()
    for name, text in bash.files(tables, targets).items():
        write(out / "completions/bash" / name, text)
    for name, text in zsh.files(tables, targets).items():
        write(out / "completions/zsh" / f"_{name}", text)


if __name__ == "__main__":
    main()
