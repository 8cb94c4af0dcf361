# SPDX-License-Identifier: MIT
"""Completions for bash: makes one file for each program, from its tables and
docs/man/completion.bash."""
import pathlib

import programs
import values

HELPERS = pathlib.Path(__file__).resolve().parent.parent.parent / "docs/man/completion.bash"

# What kiln-cc and kiln-ptxas complete: FIRST is an option of compgen for the first word; the other
# words are files.
LAUNCHER = """\
_NAME() {
    local kind=-f
    ((COMP_CWORD > 1)) || kind=FIRST
    mapfile -t COMPREPLY < <(compgen "$kind" -- "${COMP_WORDS[COMP_CWORD]}")
}
complete -o filenames -F _NAME PROGRAM
"""


def _quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def _spellings(option):
    return ([f"-{option['letter']}"] if option["letter"] else []) + [f"--{option['name']}"]


def _value_cases(command, options):
    """Yields branches of a case on 'COMMAND OPTION', for the options that take a value."""
    for option in options:
        kind = option["of"] if "of" in option else values.of_option(command, option)
        if kind != "":
            # With 'many', the option takes all following words as values.
            many = " many=yes" if option["kind"] == "list" else ""
            patterns = " | ".join(_quoted(f"{command} {s}") for s in _spellings(option))
            yield f"    {patterns}) kind={_quoted(kind or 'none')}{many} ;;"


def _function(name, lines):
    return "\n".join([f"{name}() {{", *lines, "}", ""])


def _tables(program, commands, common, fallback):
    """Returns the functions with the program's commands and options, and the kinds of their values.

    |commands| has (name, kind of its words, options) of each command; |common| has the options that
    every command has.
    """
    listed = [f"    {_quoted(name)}) options={_quoted(' '.join(sum(map(_spellings, own), [])))} ;;"
              for name, _, own in commands if own]
    words = [f"    {_quoted(name)}) kind={_quoted(kind or 'none')} ;;"
             for name, kind, _ in commands if kind != ""]
    cases = [line for name, _, own in commands for line in _value_cases(name, own)]
    shared = " ".join(sum(map(_spellings, common), []))
    return "\n".join((
        _function(f"_{program}_commands", [f"    printf '%s\\n' "
                                           f"{' '.join(_quoted(n) for n, _, _ in commands if n)}"]),
        _function(f"_{program}_options", [
            "    options=''", '    case $1 in', *listed, "    esac",
            f"    options+={_quoted(' ' + shared)}"]),
        _function(f"_{program}_words", ["    kind=''", '    case $1 in', *words, "    esac"]),
        _function(f"_{program}_value", [
            "    kind='' many=''", '    case "$1 $2" in', *cases, "    esac",
            f"    [[ -n $kind ]] || {fallback}"])))


def _common_function(program, common):
    """Returns the kinds of values of the options that every command has."""
    lines = ["    case $1 in"]
    for option in common:
        kind = values.of_option("", option)
        if kind != "":
            lines.append(f"    {' | '.join(_spellings(option))}) kind={_quoted(kind)} ;;")
    return _function(f"_{program}_common_value", lines + ["    esac"])


def _begin(program):
    return (f"# bash completion for {program}                                -*- shell-script -*-\n"
            "# SPDX-License-Identifier: MIT\n"
            "# Made when kiln is built, by scripts/manual/generate.py: changes get lost.\n\n")


def _launcher(program, first):
    text = LAUNCHER.replace("FIRST", first).replace("PROGRAM", program)
    return _begin(program) + text.replace("NAME", program.replace("-", "_"))


def _file(program, body, targets):
    known = _function("_kiln_known_targets", [f"    printf '%s\\n' {' '.join(targets)}"])
    return (_begin(program)
            + body + "\n" + known + "\n" + HELPERS.read_text()
            +
            f"\n_{program.replace('-', '_')}() {{ _kiln_complete {program.replace('-', '_')}; }}\n"
            + f"complete -F _{program.replace('-', '_')} {program}\n")


def files(tables, targets):
    """Returns {file name: text}."""
    common = tables["options"]
    commands = [("", "", [])] + [(c["name"], values.of_words(c), c["options"])
                                 for c in tables["kilnctl"]["commands"]]
    own = tables["kiln-driver"]["options"]
    flags = [{"name": f["name"], "letter": f["letter"], "kind": "text", "value": "VALUE",
              "help": f["help"], "of": "none"} for f in tables["kiln-driver"]["flags"]]
    convs = ("conv", "convfp16", "convbfp16")
    driver = ([("", "", own)] + [(c, "", flags + own) for c in convs]
              + [("run", "file", own), ("devices", "", own)])
    kilnd = [("", "", values.kilnd_options(tables, programs.KILND_FLAGS))]
    made = {"kiln-cc": _launcher("kiln-cc", "-c"), "kiln-ptxas": _launcher("kiln-ptxas", "-f")}
    for program, of_program, shared in (("kilnctl", commands, common),
                                        ("kiln-driver", driver, common),
                                        ("kilnd", kilnd, [])):
        name = program.replace("-", "_")
        fallback = f'_{name}_common_value "$2"'
        body = _tables(name, of_program, shared, fallback) + "\n" + _common_function(name, shared)
        made[program] = _file(program, body, targets)
    return made
