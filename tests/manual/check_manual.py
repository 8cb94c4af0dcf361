#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fail unless manual pages and completions agree with the programs.

Usage: tests/manual/check_manual.py BIN MANUAL

BIN contains kilnctl, kiln-driver and kilnd, whose --help is compared. MANUAL is the output of
scripts/manual/generate.py. The functions that need pages are those that libclient/exports.map
exports.
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts/manual"))
import values  # noqa: E402  pylint: disable=wrong-import-position

LONG = re.compile(r"(?<![\w-])--[a-z][\w-]*")
# An option at the start of a line of --help. kiln-driver's options contain '_'.
IN_HELP = re.compile(r"^  (?:(-.), |    )?(--[\w-]+)", re.M)
TAG = re.compile(r"^\.TP\n(.*)$", re.M)
REFERENCE = re.compile(r"\b((?:kiln|libkiln)[\w.-]*)\((\d)\)")
# Matches a description that begins by referring to another function, such as "The same". In the
# header, the other function's comment stands above, but the manual page does not contain it.
HANGING = re.compile(r"^\.SH DESCRIPTION\n(?:\.PP\n)?(The same|The other way|Its|Both)\b", re.M)


def plain(roff):
    """Returns a page's text without fonts and escapes."""
    return re.sub(r"\\f.", "", roff).replace("\\-", "-").replace("\\e", "\\").replace("\\&", "")


class Manual:
    def __init__(self, programs, directory):
        self.programs, self.directory = programs, directory
        self.pages = {path.name: plain(path.read_text()) for path in directory.glob("man/man*/*")}

    def help(self, *words):
        return subprocess.run([self.programs / words[0], *words[1:], "--help"], check=True,
                              text=True,
                              capture_output=True, timeout=60).stdout

    def commands(self):
        listed = self.help("kilnctl").split("Commands:\n")[1].split("\n'kilnctl")[0]
        return [line[2:].split("  ")[0].strip() for line in listed.splitlines() if line.strip()]

    def page_options(self, page):
        """Returns the options that have their own paragraph."""
        return {option for tag in TAG.findall(self.pages[page]) for option in
                re.findall(r"(?<![\w-])--[\w-]+", tag.split(" or ")[0]) if not tag.startswith(".")}

    def bash_options(self, program, command):
        script = self.directory / "completions/bash" / program
        name = program.replace("-", "_")
        done = subprocess.run(["bash", "--norc", "-c", f'source "$1"; _{name}_options "$2"; echo '
                               f'$options',
                               "bash", script, command], check=True, text=True, capture_output=True,
                              timeout=60)
        return {option for option in done.stdout.split() if option.startswith("--")}

    def zsh_options(self, program, command):
        """Returns the options in the specifications of |command| and of all commands."""
        text = (self.directory / "completions/zsh" / f"_{program}").read_text()
        body = re.search(r"^_\w+_specs\(\) \{\n(.*?)^\}", text, re.S | re.M)[1]
        own = re.search(rf"^    \('{re.escape(command)}'\) specs=\(\n(.*?)^    \) ;;", body,
                        re.S | re.M)
        common = body[body.index("    specs+=("):]
        lines = ((own[1] if own else "") + common).splitlines()
        return {found[1] for line in lines
                if (found := re.match(r"\s*'(?:\(-.\))?(--[\w-]+)", line))}


def differences(what, said, where, found):
    for option in sorted(said - found):
        yield f"{what}: {option} is in --help and not in {where}"
    for option in sorted(found - said):
        yield f"{what}: {option} is in {where} and not in --help"


def check_options(manual, program, command, page, said):
    what = f"{program} {command}".strip()
    if page not in manual.pages:
        yield f"{what}: there is no page {page}"
        return
    yield from differences(what, said, page, manual.page_options(page))
    yield from differences(what, said, "bash's completion", manual.bash_options(program, command))
    yield from differences(what, said, "zsh's completion", manual.zsh_options(program, command))


def check_kilnctl(manual):
    for command in manual.commands():
        page = f"kilnctl-{command.replace(' ', '-')}.1"
        said = {long for _, long in IN_HELP.findall(manual.help("kilnctl", *command.split()))}
        yield from check_options(manual, "kilnctl", command, page, said)
        listed = manual.pages["kilnctl.1"]
        if f"{page[:-2]}(1)" not in listed:
            yield f"kilnctl {command}: kilnctl.1 does not name its page"
    pages = {f"kilnctl-{c.replace(' ', '-')}.1" for c in manual.commands()}
    groups = {f"kilnctl-{c.split()[0]}.1" for c in manual.commands() if " " in c}
    for page in sorted(p for p in manual.pages if p.startswith("kilnctl-")):
        if page not in pages | groups:
            yield f"{page} is of no command"


def check_driver(manual):
    text = manual.help("kiln-driver")
    flags, options = text.split("\nOptions:\n")
    own = {long for _, long in IN_HELP.findall(options)}
    both = own | {long for _, long in IN_HELP.findall(flags)}
    yield from differences("kiln-driver", both, "kiln-driver.1",
                           manual.page_options("kiln-driver.1"))
    for command in ("conv", "convfp16", "convbfp16", "run", "devices"):
        said = both if command.startswith("conv") else own
        what = f"kiln-driver {command}"
        yield from differences(what, said, "bash's completion",
                               manual.bash_options("kiln-driver", command))
        yield from differences(what, said, "zsh's completion",
                               manual.zsh_options("kiln-driver", command))


def check_kilnd(manual):
    text = manual.help("kilnd")
    said = set(re.findall(r"^  (--[\w-]+)", text, re.M))
    yield from check_options(manual, "kilnd", "", "kilnd.8", said)
    keys = set(re.findall(r'^  --[\w-]+, KILND_\w+, "(\w+)"', text, re.M))
    paged = {tag.split()[0] for tag in TAG.findall(manual.pages["kilnd.json.5"]) if " (" in tag}
    yield from differences("kilnd", keys, "kilnd.json.5", paged)


def exported(path):
    return set(re.findall(r"^\s+(kiln_\w+);", path.read_text(), re.M))


def check_library(manual, functions):
    pages = {name[:-2] for name in manual.pages if name.endswith(".3") and name != "libkiln.3"}
    for name in sorted(functions - pages):
        yield f"{name}: there is no page {name}.3"
    for name in sorted(pages - functions):
        yield f"{name}.3: libkiln exports no such function"
    for name in sorted(functions & pages):
        line = re.search(r"^\.SH NAME\n\S+ - (.*)$", manual.pages[f"{name}.3"], re.M)
        if not line or not line[1].strip() or not re.search(r"\w{3}", line[1]):
            yield f"{name}.3 says nothing in NAME: write a line in docs/man/functions.list"
        if hanging := HANGING.search(manual.pages[f"{name}.3"]):
            yield (f"{name}.3 begins with '{hanging[1]}', as if there were a page above it: "
                   f"say what, in the header")


def check_references(manual):
    for name, text in sorted(manual.pages.items()):
        for page, section in sorted(set(REFERENCE.findall(text))):
            if f"{page}.{section}" not in manual.pages:
                yield f"{name} refers to {page}({section}), which there is not"


def _examples(text):
    for section in re.findall(r"^\.SH EXAMPLES\n(.*?)(?=^\.SH |\Z)", text, re.S | re.M):
        for block in re.findall(r"^\.nf\n(.*?)^\.fi", section, re.S | re.M):
            yield from block.splitlines()


def _calls(line):
    """Yields the arguments of each call of one of kiln's programs in a shell line."""
    for part in re.split(r"\$\(|[|;)]|\s>\s", line):
        try:
            words = shlex.split(part)
        except ValueError:
            words = part.split()
        if words and words[0] in ("kilnctl", "kiln-driver", "kilnd"):
            yield words


def check_example(manual, commands, words):
    """Complains about unknown commands and options in a call."""
    program, command = words[0], ""
    if program == "kilnctl":
        named = [c for c in commands if c.split() == words[1:1 + len(c.split())]]
        if not named:
            yield f"'{' '.join(words)}': kilnctl has no such command"
            return
        command = max(named, key=len)
    elif program == "kiln-driver":
        command = words[1]
    known = manual.bash_options(program, command)
    for word in words:
        long = LONG.match(word)
        if long and long[0] not in known:
            yield f"'{' '.join(words)}': there is no {long[0]}"


def check_examples(manual):
    commands = manual.commands()
    for name, text in sorted(manual.pages.items()):
        for line in _examples(text):
            for words in _calls(line):
                for complaint in check_example(manual, commands, words):
                    yield f"{name}: {complaint}"


def check_values(manual):
    tables = json.loads((manual.directory / "tables.json").read_text())
    for what in values.unknown(tables):
        yield f"{what}: scripts/manual/values.py does not know what to offer for it"


def complaints(manual, functions):
    yield from check_kilnctl(manual)
    yield from check_driver(manual)
    yield from check_kilnd(manual)
    yield from check_library(manual, functions)
    yield from check_references(manual)
    yield from check_examples(manual)
    yield from check_values(manual)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[1])
    manual = Manual(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    found = list(complaints(manual, exported(ROOT / "libclient/exports.map")))
    print("\n".join(found) or f"{len(manual.pages)} pages and the completions agree with the "
          f"programs")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
