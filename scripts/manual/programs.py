# SPDX-License-Identifier: MIT
"""Makes the pages of the programs and of kilnd.json, from the tables that cli/manual/tables.c
prints."""
import re

import roff

TYPES = {"PATH": "path", "TEXT": "text", "SIZE": "size", "DURATION": "time", "COUNT": "number",
         "CHOICE": "word", "TREE": "url"}
APPLIES = {"NOW": "A change takes effect at SIGHUP.",
           "RESTART": "A change takes effect when kilnd is restarted."}
# kilnd's flags, except those that are generated from its settings.
KILND_FLAGS = (
    ("help", "h", "", "show the flags and settings"),
    ("version", "", "", "show the version"),
    ("check-config", "", "", "read the configuration, print each setting with its origin, or the "
                             "error in the configuration, and exit"),
    ("private", "", "", "serve only this user, with directories in ~/.cache and ~/.local/state; "
                        "libkiln uses this flag if no other kilnd answers; kilnd.json is not read"),
    ("config", "", "FILE", "read `FILE` instead of kilnd.json and kilnd.json.d/*.json"),
)


def page_of(command):
    return "kilnctl-" + command["name"].replace(" ", "-")


def _marked(text):
    """Returns a help text with bold options and quoted commands."""
    text = re.sub(r"(?<![\w`-])(--?[a-z][\w-]*)", r"`\1`", text)
    return text


def option_tag(option):
    value = f" {roff.italic(option['value'])}" if option["value"] else ""
    letter = f"{roff.bold('-' + option['letter'])}, " if option["letter"] else ""
    return f"{letter}{roff.bold('--' + option['name'])}{value}"


def options_roff(options):
    return "\n".join(roff.tagged(option_tag(o), roff.sentence(_marked(o["help"]))) for o in options)


def _help(text):
    """Returns the paragraphs of a command's --help; indented lines stay unchanged."""
    blocks = []
    for block in re.split(r"\n[ \t]*\n", text):
        run, drawn = [], []
        for line in block.splitlines() + [None]:
            is_drawn = line is not None and line.startswith("  ")
            if drawn and not is_drawn:
                blocks.append("\n".join("    " + d[2:] for d in drawn))
                drawn = []
            if run and (is_drawn or line is None):
                blocks.append(_marked(" ".join(run)))
                run = []
            if is_drawn:
                drawn.append(line)
            elif line is not None:
                run.append(line.strip())
    return "\n\n".join(blocks)


def _words_roff(words):
    return "".join(f" {roff.italic(word)}" for word in words.split())


class Programs:
    def __init__(self, tables, parts):
        self.tables, self.parts = tables, parts
        self.commands = tables["kilnctl"]["commands"]
        self.groups = sorted({c["name"].split()[0] for c in self.commands if " " in c["name"]})

    def _exit_status(self, page):
        for line in self.tables["exit_status"].splitlines()[1:]:
            number, text = line.split(None, 1)
            page.add("EXIT STATUS", roff.tagged(roff.bold(number), roff.sentence(text)))

    def _by_hand(self, page):
        part = self.parts.get((page.name, page.section))
        for heading, text in part.sections if part else ():
            page.add(heading, roff.blocks(text))

    def command(self, command):
        page = roff.Page(page_of(command), 1, command["summary"])
        page.add("SYNOPSIS", f".PP\n{roff.bold('kilnctl ' + command['name'])} "
                 f"[{roff.italic('OPTION')}]...{_words_roff(command['words'])}")
        page.add("DESCRIPTION", roff.blocks(_help(command["help"])))
        page.add("OPTIONS", options_roff(command["options"]))
        if command["options"]:
            page.add("OPTIONS", ".SS Options of every command")
        page.add("OPTIONS", options_roff(self.tables["options"]))
        self._exit_status(page)
        self._by_hand(page)
        group = command["name"].split()[0]
        near = [f"kilnctl-{group}(1)"] if group in self.groups else []
        near += [f"{page_of(c)}(1)" for c in self.commands
                 if c["name"].split()[0] == group and c is not command]
        page.add("SEE ALSO", roff.filled(", ".join(["kilnctl(1)"] + near + ["kilnd(8)",
                                                                            "kiln(7)"])))
        return page

    def _list(self, page, commands):
        for c in commands:
            page.add("COMMANDS", f".TP\n{roff.bold(c['name'])}{_words_roff(c['words'])}\n"
                     + roff.filled(f"{roff.sentence(c['summary'])} {page_of(c)}(1)"))

    def group(self, group):
        page = roff.Page(f"kilnctl-{group}", 1, self.parts[f"kilnctl-{group}", 1].summary)
        page.add("SYNOPSIS", f".PP\n{roff.bold(f'kilnctl {group}')} {roff.italic('COMMAND')} "
                 f"[{roff.italic('OPTION')}]... [{roff.italic('WORD')}]...")
        self._list(page, [c for c in self.commands if c["name"].startswith(group + " ")])
        self._by_hand(page)
        page.add("SEE ALSO", roff.filled("kilnctl(1), kilnd(8), kiln(7)"))
        return page

    def kilnctl(self):
        page = roff.Page("kilnctl", 1, self.parts["kilnctl", 1].summary)
        page.add("SYNOPSIS", f".PP\n{roff.bold('kilnctl')} {roff.italic('COMMAND')} "
                 f"[{roff.italic('OPTION')}]... [{roff.italic('WORD')}]...")
        self._list(page, self.commands)
        page.add("OPTIONS", options_roff(self.tables["options"]))
        self._exit_status(page)
        self._by_hand(page)
        return page

    def driver(self):
        tables = self.tables["kiln-driver"]
        page = roff.Page("kiln-driver", 1, self.parts["kiln-driver", 1].summary)
        page.add("SYNOPSIS", ".PP\n" + "\n.br\n".join(
            (f"{roff.bold('kiln-driver')} {roff.bold('conv')}|{roff.bold('convfp16')}|"
             f"{roff.bold('convbfp16')} [{roff.italic('FLAG VALUE')}]... "
             f"[{roff.italic('OPTION')}]...",
             f"{roff.bold('kiln-driver run')} {roff.italic('FILE')} [{roff.italic('OPTION')}]...",
             f"{roff.bold('kiln-driver devices')} [{roff.bold('--json')}]")))
        page.add("FLAGS", roff.filled("The flags of MIOpenDriver; each takes a value:"))
        for flag in tables["flags"]:
            letter = f"{roff.bold('-' + flag['letter'])}, " if flag["letter"] else ""
            page.add("FLAGS", roff.tagged(f"{letter}{roff.bold('--' + flag['name'])}",
                                          roff.sentence(flag["help"])))
        page.add("OPTIONS", options_roff(tables["options"] + self.tables["options"]))
        self._exit_status(page)
        self._by_hand(page)
        return page

    def kilnd(self):
        page = roff.Page("kilnd", 8, self.parts["kilnd", 8].summary)
        page.add("SYNOPSIS", f".PP\n{roff.bold('kilnd')} [{roff.bold('--config')} "
                 f"{roff.italic('FILE')}] "
                 f"[{roff.bold('--')}{roff.italic('SETTING VALUE')}]...\n.br\n"
                 f"{roff.bold('kilnd --check-config')} | {roff.bold('--help')} | "
                 f"{roff.bold('--version')}")
        for name, letter, value, text in KILND_FLAGS:
            page.add("OPTIONS", roff.tagged(
                option_tag({"name": name, "letter": letter, "value": value}), roff.sentence(text)))
        page.add("OPTIONS", ".PP\n" + roff.filled(
            "Every setting is also a flag; kilnd.json(5) describes the settings in detail:"))
        for setting in self.tables["settings"]:
            flag = "--" + setting["key"].replace("_", "-")
            page.add("OPTIONS", f".TP\n{roff.bold(flag)} {roff.italic(self._value(setting))}\n"
                     + roff.filled(roff.sentence(setting["help"])))
        self._by_hand(page)
        return page

    @staticmethod
    def _value(setting):
        return setting["rule"] if setting["type"] == "CHOICE" else TYPES[setting["type"]].upper()

    def settings(self):
        page = roff.Page("kilnd.json", 5, self.parts["kilnd.json", 5].summary)
        for setting in self.tables["settings"]:
            key = setting["key"]
            facts = [f"Variable `KILND_{key.upper()}`, flag `--{key.replace('_', '-')}`."]
            if setting["default"]:
                facts.append(f"Default: `{setting['default']}`.")
            if setting["type"] != "CHOICE" and setting["rule"]:
                least, most = setting["rule"].split("..")
                facts.append(f"From {least} to {most}.")
            facts.append(APPLIES[setting["applies"]])
            page.add("SETTINGS", f".TP\n{roff.bold(key)} ({roff.italic(self._value(setting))})\n"
                     + roff.filled(roff.sentence(setting["help"])) + "\n.IP\n"
                     + roff.filled(" ".join(facts)))
        self._by_hand(page)
        return page

    def pages(self):
        yield self.kilnctl()
        for group in self.groups:
            yield self.group(group)
        for command in self.commands:
            yield self.command(command)
        yield self.driver()
        yield self.kilnd()
        yield self.settings()
