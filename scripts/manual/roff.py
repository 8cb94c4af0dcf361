# SPDX-License-Identifier: MIT
"""Converts plain text with a simple markup to roff with the man(7) macros.

In texts, `x` is bold, and name(3) is a reference to a manual page. With names=True, |x| is a
parameter's name, as in the comments of C headers.
"""
import re
import textwrap

_MARKS = re.compile(r"`([^`]+)`|([A-Za-z][\w.-]*)\(([1-8])\)")
_NAMES = re.compile(r"\|(\w+)\|")
WIDTH = 96


def escape(text):
    return text.replace("\\", "\\e").replace("-", "\\-")


def bold(text):
    return f"\\fB{escape(text)}\\fR"


def italic(text):
    return f"\\fI{escape(text)}\\fR"


def guard(line):
    """Returns the line, escaped so that roff does not read it as a request."""
    return "\\&" + line if line[:1] in (".", "'") else line


def inline(text, names=False):
    """Returns |text| with its markup replaced by font changes."""
    pattern = re.compile(_MARKS.pattern + "|" + _NAMES.pattern) if names else _MARKS
    parts, at = [], 0
    for found in pattern.finditer(text):
        parts.append(escape(text[at:found.start()]))
        at = found.end()
        if found.group(1):
            parts.append(bold(found.group(1)))
        elif found.group(2):
            parts.append(f"{bold(found.group(2))}({found.group(3)})")
        else:
            parts.append(italic(found.group(4)))
    return "".join(parts) + escape(text[at:])


def filled(text, names=False):
    """Returns lines of running text."""
    lines = textwrap.wrap(inline(" ".join(text.split()), names), WIDTH, break_long_words=False,
                          break_on_hyphens=False)
    return "\n".join(guard(line) for line in lines)


def verbatim(text):
    """Returns indented verbatim lines."""
    lines = "\n".join(guard(escape(line)) for line in text.splitlines())
    return f".PP\n.in +4n\n.nf\n{lines}\n.fi\n.in"


def code(text):
    """Returns bold verbatim lines, for a synopsis."""
    lines = "\n".join(guard(bold(line)) if line else "" for line in text.splitlines())
    return f".PP\n.nf\n{lines}\n.fi"


def tagged(tag, text, names=False):
    """Returns a paragraph tagged with |tag|, which is roff."""
    return f".TP\n{tag}\n{filled(text, names)}"


def _block(block, names):
    lines = block.splitlines()
    if all(line.startswith("    ") for line in lines):
        return verbatim(textwrap.dedent(block))
    if len(lines) > 1 and lines[1].startswith(": "):
        return tagged(inline(lines[0], names), sentence(" ".join([lines[1][2:]] + lines[2:])),
                      names)
    return ".PP\n" + filled(block, names)


def sentence(text):
    """Returns |text| with a full stop, and with a capital letter unless it begins with a name."""
    is_name = re.match(r"(kiln|lib|k?db\b|k?pkg\b|\w+_)", text)
    text = text if is_name else text[:1].upper() + text[1:]
    return text + ("" if text.endswith((".", "?", ":")) else ".")


def blocks(text, names=False):
    """Converts paragraphs. Paragraphs indented by four are verbatim; 'TAG: text' is a tagged
    paragraph."""
    parts = []
    for block in re.split(r"\n[ \t]*\n", text.strip("\n")):
        if not block.strip():
            continue
        made = _block(block.rstrip(), names)
        if parts and parts[-1].startswith(".PP\n.in") and made.startswith(".PP\n.in"):
            # Joins two successive verbatim blocks with an empty line.
            parts[-1] = parts[-1][:-len("\n.fi\n.in")] + "\n\n" + made[len(".PP\n.in +4n\n.nf\n"):]
        else:
            parts.append(made)
    return "\n".join(parts)


ORDER = ("LIBRARY", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "FLAGS", "OPTIONS", "SETTINGS",
         "RETURN VALUE", "ERRORS", "EXIT STATUS", "SIGNALS", "ENVIRONMENT", "FILES", "NOTES",
         "EXAMPLES", "SEE ALSO")


class Page:
    """One manual page, whose sections of roff are put into the usual order."""

    def __init__(self, name, section, summary):
        self.name, self.section, self.summary = name, section, summary
        self.parts = {}

    @property
    def title(self):
        return f"{self.name}({self.section})"

    def add(self, heading, roff):
        """Appends |roff| to section |heading|."""
        if roff:
            self.parts.setdefault(heading, []).append(roff)

    def text(self, date, version):
        known = [h for h in ORDER if h in self.parts]
        # Inserts sections that are not in ORDER after the description.
        odd = [h for h in self.parts if h not in ORDER]
        at = known.index("DESCRIPTION") + 1 if "DESCRIPTION" in known else 0
        lines = ['.\\" Made when kiln is built, by scripts/manual/generate.py: changes get lost.',
                 f'.TH "{escape(self.name)}" "{self.section}" "{date}" "kiln {version}" '
                 '"kiln\\(aqs manual"',
                 ".nh", ".ad l",
                 ".SH NAME", f"{escape(self.name)} \\- {inline(self.summary)}"]
        for heading in known[:at] + odd + known[at:]:
            # .SS begins a paragraph, so .PP is not needed after it.
            body = re.sub(r"(?m)^(\.SS .*)\n\.PP$", r"\1", "\n".join(self.parts[heading]))
            lines.append(f".SH {heading}" if " " not in heading else f'.SH "{heading}"')
            lines.append(body[len(".PP\n"):] if body.startswith(".PP\n") else body)
        return "\n".join(lines) + "\n"
