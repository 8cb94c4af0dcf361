# SPDX-License-Identifier: MIT
"""Makes libkiln(3), and a page for each of its functions, from the public headers."""
import re
import textwrap

import headers
import roff

LINK = "pkg-config --cflags --libs kiln"


def _first_sentence(comment):
    """Returns a comment's first sentence, for the summary line of a page."""
    text = " ".join(comment.split()).replace("|", "")
    text = re.split(r"(?<=[a-z0-9)\"])[.;](?:\s|$)", text)[0]
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _paragraphs(comment):
    """Returns a comment's text in the form of the roff module: indented drawings become verbatim
    blocks."""
    blocks = []
    for block in re.split(r"\n[ \t]*\n", comment):
        lines = block.splitlines()
        prose = [line for line in lines if not line.startswith("  ")]
        drawn = [line for line in lines if line.startswith("  ")]
        is_list = any(re.match(r"\s*\d\. ", line) for line in drawn)
        if drawn and not is_list and prose and lines.index(drawn[0]) > 0:
            head = lines[:lines.index(drawn[0])]
            tail = lines[lines.index(drawn[-1]) + 1:]
            blocks += ["\n".join(head), textwrap.indent("\n".join(drawn), "    "), "\n".join(tail)]
        elif is_list:
            for entry in re.split(r"\n\s*(?=\d\. )", "\n" + block):
                blocks.append(" ".join(entry.split()))
        else:
            blocks.append("\n".join(line.strip() for line in lines))
    return "\n\n".join(b for b in blocks if b.strip())


class Library:
    def __init__(self, directory, summaries):
        self.headers = headers.read(directory)
        self.summaries = summaries
        self.items = [item for header in self.headers for item in header.items]
        self.functions = [item for item in self.items if item.function]
        self.structs = {item.struct: item for item in self.items if item.struct}
        self.callbacks = {item.callback: item for item in self.items if item.callback}
        self.enums = [item for item in self.items if item.constants]

    def summary(self, item):
        if item.function in self.summaries:
            return self.summaries[item.function]
        return _first_sentence(item.above or item.behind)

    def _used_by(self, item):
        """Returns the structs, callbacks and enums that a reader of |item| needs, in this order."""
        callbacks = [c for name, c in self.callbacks.items()
                     if re.search(rf"\b{name}\b", item.bare)]
        text = "\n".join([item.bare] + [c.bare for c in callbacks])
        names = [n for n in self.structs
                 if re.search(rf"\bstruct {n}\b", text) and n != "kiln_error"]
        for name in list(names):  # also finds structs inside structs, one level deep
            names += [n for n in self.structs if n not in names and n != "kiln_error"
                      and re.search(rf"\bstruct {n}\b", self.structs[name].code)]
        structs = [self.structs[n] for n in names]
        shown = "\n".join([item.above, item.behind, text] + [s.code for s in structs])
        enums = [e for e in self.enums if e.header != "kiln/error.h"
                 and any(re.search(rf"\b{c}\b", shown) for c in e.constants)]
        prefixes = re.findall(r"\b(KILN_\w+_)\*", shown)
        enums += [e for e in self.enums if e not in enums
                  and any(c.startswith(p) for c in e.constants for p in prefixes)]
        return structs + callbacks + enums

    def _synopsis(self, page, item):
        page.add("LIBRARY", ".PP\nkiln's client library (" + roff.bold(LINK) + ")")
        page.add("SYNOPSIS", roff.code(f"#include <{item.header}>"))
        page.add("SYNOPSIS", roff.code(item.bare))

    def _describe(self, page, item):
        # Several functions share this comment, so the page begins with a summary of its own
        # function.
        if item.is_shared:
            page.add("DESCRIPTION", roff.blocks(roff.sentence(self.summary(item))))
        if item.above:
            page.add("DESCRIPTION", roff.blocks(_paragraphs(item.above), names=True))
        if item.behind:
            page.add("DESCRIPTION", roff.blocks(roff.sentence(item.behind), names=True))
        if not item.above and not item.behind:
            page.add("DESCRIPTION", roff.blocks(roff.sentence(self.summary(item))))
        for used in self._used_by(item):
            if used.above and not used.is_shared:
                page.add("DESCRIPTION", roff.blocks(_paragraphs(used.above), names=True))
            page.add("DESCRIPTION", roff.verbatim(textwrap.dedent(used.code)))

    def _returns(self, page, item):
        if item.is_fallible():
            page.add("RETURN VALUE", roff.filled(
                "`KILN_E_OK` (0), or an error code of libkiln(3). On failure, |err| receives the "
                "code and a message if it is not NULL"
                + (", and the objects of |ret_| parameters are not changed."
                   if "ret_" in item.bare else "."), names=True))

    def _notes(self, page, item):
        header = next(h for h in self.headers if h.name == item.header)
        for topic, text in header.topics()[1]:
            page.add("NOTES", roff.tagged(roff.bold(topic), roff.sentence(text), names=True))

    def page(self, item, extra):
        page = roff.Page(item.function, 3, self.summary(item))
        self._synopsis(page, item)
        self._describe(page, item)
        self._returns(page, item)
        self._notes(page, item)
        for heading, text in extra:
            page.add(heading, roff.blocks(text))
        near = [f.function for f in self.functions
                if f.header == item.header and f.function != item.function]
        page.add("SEE ALSO", roff.filled(", ".join(f"{n}(3)" for n in ["libkiln"] + near)))
        return page

    def overview(self, part):
        page = roff.Page("libkiln", 3, part.summary)
        page.add("LIBRARY", ".PP\nkiln's client library (" + roff.bold(LINK) + ")")
        page.add("SYNOPSIS", roff.code("#include <kiln/kiln.h>"))
        for heading, text in part.sections:
            page.add(heading, roff.blocks(text))
        errors = next(h for h in self.headers if h.name == "kiln/error.h")
        page.add("ERRORS", roff.blocks(_paragraphs(errors.opening), names=True))
        for item in errors.items:
            if item.constants or item.struct:
                page.add("ERRORS", roff.verbatim(item.code))
        for header in self.headers:
            page.add("FUNCTIONS", f'.SS "{roff.escape(header.name)}"')
            before = header.topics()[0] if header is not errors else ""
            if before:
                page.add("FUNCTIONS", roff.blocks(_paragraphs(before), names=True))
            for item in header.items:
                if item.function:
                    page.add("FUNCTIONS", f".TP\n{roff.bold(item.function)}(3)\n"
                             + roff.filled(self.summary(item)))
        page.add("SEE ALSO", roff.filled("kiln(7), kilnd(8), kilnctl(1), kiln-driver(1)"))
        return page

    def pages(self, parts):
        yield self.overview(parts["libkiln", 3])
        for item in self.functions:
            part = parts.get((item.function, 3))
            yield self.page(item, part.sections if part else ())
