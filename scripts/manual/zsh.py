# SPDX-License-Identifier: MIT
"""Completions for zsh: makes one file for each program, from its tables and
docs/man/completion.zsh."""
import pathlib
import re

import programs
import values

HELPERS = pathlib.Path(__file__).resolve().parent.parent.parent / "docs/man/completion.zsh"

LAUNCHER = """\
#compdef kiln-cc kiln-ptxas
# SPDX-License-Identifier: MIT
# Made when kiln is built, by scripts/manual/generate.py: changes get lost.

if [[ $service == kiln-ptxas ]]; then
    _files
else
    _arguments '(-):compiler:_command_names -e' '*::arguments:_files'
fi
"""


def _quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def _escaped(text):
    """Escapes a description or a message that is part of a specification."""
    return re.sub(r"([\[\]:\\])", r"\\\1", " ".join(text.replace("`", "").split()))


def _action(kind):
    if kind == "file":
        return "_files"
    if kind == "directory":
        return "_files -/"
    if kind in ("user", "group"):
        return f"_{kind}s"
    if kind in values.ASKED:
        return f"_kiln_offer {kind}"
    if kind.startswith("word "):
        return f"({kind[5:]})".replace(":", "\\:")
    return "( )"


def _value(option, kind):
    """Returns ':NAME:ACTION' for a specification, or '' for a flag."""
    if kind == "":
        return ""
    rest = ":*" if option["kind"] == "list" else ""  # the option takes all words that follow
    return f"{rest}:{_escaped(option['value'])}:{_action(kind or 'none')}"


def _specs(command, options):
    for option in options:
        kind = option["of"] if "of" in option else values.of_option(command, option)
        names = f"--{option['name']}"
        text = f"[{_escaped(option['help'])}]{_value(option, kind)}"
        equals = "=" if kind != "" and option["kind"] != "list" else ""
        if option["letter"]:
            short = f"-{option['letter']}"
            plus = "+" if kind != "" else ""
            yield _quoted(f"({names}){short}{plus}{text}")
            yield _quoted(f"({short}){names}{equals}{text}")
        else:
            yield _quoted(f"{names}{equals}{text}")


def _words(kind, name):
    if kind == "":
        return []
    return [_quoted(f"*:{_escaped(name)}:{_action(kind or 'none')}")]


def _function(name, lines):
    return "\n".join([f"{name}() {{", *lines, "}", ""])


def _specs_function(program, commands, common):
    """Returns a function that puts the specifications of command |1| into |specs|."""
    lines = ["    case $1 in"]
    for name, kind, words, options in commands:
        specs = list(_specs(name, options)) + _words(kind, words)
        lines += [f"    ({_quoted(name)}) specs=("] + [f"        {s}" for s in specs] + ["    ) ;;"]
    lines += ["    esac", "    specs+=("] + [f"        {s}" for s in _specs("", common)] + ["    )"]
    return _function(f"_{program}_specs", lines)


def _commands_function(program, commands):
    """Returns a function that puts 'NAME:SUMMARY' of every command into |listed|."""
    lines = [f"        {_quoted(name + ':' + summary)}" for name, summary in commands]
    return _function(f"_{program}_commands", ["    listed=("] + lines + ["    )"])


def _groups_function(program, groups):
    lines = [f"        {_quoted(name + ':' + summary)}" for name, summary in groups]
    return _function(f"_{program}_groups", ["    listed=("] + lines + ["    )"])


def _file(program, body, targets):
    name = program.replace("-", "_")
    known = _function("_kiln_known_targets", [f"    print -l {' '.join(targets)}"])
    return (f"#compdef {program}\n"
            "# SPDX-License-Identifier: MIT\n"
            "# Made when kiln is built, by scripts/manual/generate.py: changes get lost.\n\n"
            + body + "\n" + known + "\n" + HELPERS.read_text()
            + f"\n_{name}() {{ _kiln_complete {name} \"$@\"; }}\n"
            + f"_{name} \"$@\"\n")


def _driver(tables):
    own = tables["kiln-driver"]["options"]
    flags = [{"name": f["name"], "letter": f["letter"], "kind": "text", "value": "VALUE",
              "help": f["help"], "of": "none"} for f in tables["kiln-driver"]["flags"]]
    known = {o["letter"] for o in tables["options"] if o["letter"]}
    convs = {"conv": "float", "convfp16": "half", "convbfp16": "bfloat16"}
    listed = [(c, f"run one convolution, {kind} data") for c, kind in convs.items()]
    listed += [("run", "run a file of MIOpenDriver command lines"),
               ("devices", "list what can run kernels here")]
    # -h means --help. MIOpenDriver has an option with the same letter, so that option gets only its
    # long name here.
    flags = [f if f["letter"] not in known else {**f, "letter": ""} for f in flags]
    commands = [("", "", "", own)] + [(c, "", "", flags + own) for c in convs]
    commands += [("run", "file", "FILE", own), ("devices", "", "", own)]
    return listed, commands


def files(tables, targets):
    """Returns {file name: text}."""
    common = tables["options"]
    listed = [(c["name"], c["summary"]) for c in tables["kilnctl"]["commands"]]
    groups = sorted({n.split()[0] for n, _ in listed if " " in n})
    commands = [("", "", "", [])] + [(c["name"], values.of_words(c), c["words"], c["options"])
                                     for c in tables["kilnctl"]["commands"]]
    driver_listed, driver_commands = _driver(tables)
    kilnd = [("", "", "", values.kilnd_options(tables, programs.KILND_FLAGS))]
    described = [(g, f"commands of {g}") for g in groups]
    made = {"kiln-cc": LAUNCHER}
    for program, names, of_groups, of_program, shared in (
            ("kilnctl", listed, described, commands, common),
            ("kiln-driver", driver_listed, [], driver_commands, common),
            ("kilnd", [], [], kilnd, [])):
        name = program.replace("-", "_")
        body = "\n".join((_commands_function(name, names), _groups_function(name, of_groups),
                          _specs_function(name, of_program, shared)))
        made[program] = _file(program, body, targets)
    return made
