# SPDX-License-Identifier: MIT
"""Filters a Markdown file for Doxygen, which does not support GitHub's anchors of headings. Gives
each heading a name made from its page and its text, and points links to these names. Usage:
doxygen_markdown.py FILE"""
import re
import sys
from pathlib import PurePath


def slug_of(heading):
    words = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return words.replace(" ", "-")


def name_of(page, anchor):
    return f"{page.replace('-', '_')}__{anchor.replace('-', '_')}"


def filtered(line, page, slugs):
    heading = re.match(r"(##+) (.*)$", line)
    if heading:
        slug = slug_of(heading[2])
        slugs.append(slug)
        number = slugs.count(slug) - 1  # GitHub numbers headings of the same text
        return f"{line} {{#{name_of(page, slug + (f'-{number}' if number else ''))}}}"

    def link(match):
        to = PurePath(match[1]).stem if match[1] else page
        return f"]({'@ref ' + name_of(to, match[2])})"
    return re.sub(r"\]\(([\w./-]*\.md)?#([\w-]+)\)", link, line)


slugs = []
page = PurePath(sys.argv[1]).stem
is_code = False
for line in open(sys.argv[1], encoding="utf-8"):
    is_code ^= line.startswith("```")
    print(line.rstrip("\n") if is_code else filtered(line.rstrip("\n"), page, slugs))
