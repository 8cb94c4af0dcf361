# SPDX-License-Identifier: MIT
"""Parses libkiln's public headers: functions with their comments, structs, enums, callbacks.

A comment above a declaration belongs to it, and to the following declarations that have no comment
and no empty line before them. A comment after a declaration belongs only to this declaration. A
header's opening comment applies to the whole header. It has paragraphs, and lines 'Word  text' with
one topic each.
"""
import re
import textwrap

WIDTH = 72
_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_TOPIC = re.compile(r"^([A-Z][a-z]+)\s{2,}(\S.*)$")


def words_of(comment):
    """Returns a comment's text: keeps the lines, but removes the stars."""
    inner = comment.strip()[2:-2]
    return "\n".join(re.sub(r"^\s*\* ?", "", line) if i else line.strip()
                     for i, line in enumerate(inner.splitlines())).strip("\n").rstrip()


class Item:
    """A declaration of a header, with the text of its comments."""

    def __init__(self, header, code, above, behind, is_shared):
        self.header, self.code = header, code
        self.above, self.behind, self.is_shared = above, behind, is_shared
        bare = _COMMENT.sub("", code)
        self.function = None
        self.struct = None
        self.callback = None
        self.constants = []
        found = re.match(r"struct (\w+) \{", bare)
        if found:
            self.struct = found[1]
        elif bare.startswith("enum"):
            self.constants = re.findall(r"\b(KILN_\w+)\b", bare)
        elif bare.startswith("typedef"):
            self.callback = re.search(r"(\w+)\(", bare)[1]
        elif "(" in bare:
            self.function = re.search(r"\b(kiln_\w+)\s*\(", bare)[1]

    @property
    def bare(self):
        """Returns the declaration without comments, in lines that fit a page."""
        words = " ".join(_COMMENT.sub("", self.code).split())
        if "{" in words or "(" not in words:
            return words
        name, parameters = words.split("(", 1)
        # Only break lines between parameters: the spaces inside a parameter become NULs while the
        # text is filled.
        whole = f"{name}({parameters}".replace(" ", "\0")
        return textwrap.fill(whole.replace(",\0", ", "), WIDTH, subsequent_indent="    ",
                             break_long_words=False, break_on_hyphens=False).replace("\0", " ")

    def is_fallible(self):
        return bool(re.match(r"int .*struct\s+kiln_error\s+\*err\)", self.code, re.S))


class Header:
    def __init__(self, path):
        self.name = f"kiln/{path.name}"
        self.opening = ""
        self.items = []
        self._read(path.read_text())

    def _body(self, text):
        inside = text[text.index("#pragma GCC visibility push"):text.index("#pragma GCC "
                                                                           "visibility pop")]
        return inside[inside.index("\n"):]

    def _read(self, text):
        opening = re.search(r"^#define KILN_\w+_H\s*\n\s*(/\*.*?\*/)", text, re.S | re.M)
        self.opening = words_of(opening[1]) if opening else ""
        if "#pragma GCC visibility push" in text:
            self._read_items(self._body(text))

    def _read_items(self, body):
        above, is_new, at = "", True, 0
        while at < len(body):
            gap = re.compile(r"\s*").match(body, at)
            if gap[0].count("\n") > 1:
                above = ""
            at = gap.end()
            if body.startswith("/*", at):
                end = body.index("*/", at) + 2
                words = words_of(body[at:end])
                above, is_new = ("" if words.startswith("----") else words), True
                at = end
            elif at < len(body):
                end = self._end_of(body, at)
                behind = re.compile(r"[ \t]*(/\*.*?\*/)", re.S).match(body, end)
                self.items.append(Item(self.name, body[at:end], above,
                                       words_of(behind[1]) if behind else "",
                                       bool(above) and not is_new))
                is_new = False
                at = behind.end() if behind else end

    @staticmethod
    def _end_of(body, at):
        """Returns the position after the ';' that ends the declaration at |at|."""
        depth = 0
        while True:
            if body.startswith("/*", at):
                at = body.index("*/", at) + 2
                continue
            depth += {"{": 1, "}": -1}.get(body[at], 0)
            at += 1
            if body[at - 1] == ";" and depth == 0:
                return at

    def topics(self):
        """Returns (paragraphs before the first topic, [(topic, text)]) of the opening comment."""
        before, topics = [], []
        for line in self.opening.splitlines():
            found = _TOPIC.match(line)
            if found:
                topics.append((found[1], found[2]))
            elif topics:
                topics[-1] = (topics[-1][0], f"{topics[-1][1]} {line.strip()}")
            else:
                before.append(line)
        return "\n".join(before), topics


def read(directory):
    return [Header(path) for path in sorted(directory.glob("*.h")) if path.name != "kiln.h"]
