# SPDX-License-Identifier: MIT
"""Determines the values that shell completion offers for options and words.

The kind of a value is 'none', 'file', 'directory', 'user', 'group', 'word A B C', or one of ASKED.
`kilnctl` reports the values of ASKED, most of them from the running kilnd.
"""
ASKED = ("target", "toolchain", "package", "key", "database_id", "job")

# Kinds by an option's name, which takes precedence over the name of its value.
_OPTIONS = {
    "target": "target", "probe": "target", "toolchain": "toolchain", "db-id": "database_id",
    "package": "package", "miopen": "none",
    "device": "word auto hip cuda opencl hip:0 cuda:0 opencl:0",
}
# kinds by (command, option), for options whose values differ from those of the same option of other
# commands
_OF_COMMANDS = {
    ("db get", "toolchain"): "none", ("db verify", "toolchain"): "none",
}
_WORDS_OF_COMMANDS = {"pkg show": "package", "pkg verify": "package", "pkg rm": "package",
                      "run": "file", "fleet revoke": "file",
                      "trace show": "job", "trace diff": "job",
                      "trace prefetch": "job", "trace find": "job", "trace pack": "job",
                      "trace push": "job", "trace pull": "directory"}
_VALUES = {
    "FILE": "file", "PATH": "file", "OUT": "file", "PACKAGE": "file", "A": "file", "B": "file",
    "DIR": "directory", "DIRS": "directory",
    "JOB": "job", "KEY": "key", "KEY-PREFIX": "key", "TARGET": "target", "TARGETS": "target",
    "ID": "database_id", "USER": "user", "GROUP": "group",
    "URL": "none", "NAME": "none", "PROBLEM": "none", "TIME": "none", "SIZE": "none", "N": "none",
    "HEX": "none", "LIBRARY": "none", "UID": "none", "TEXT": "none", "VERSION": "none",
    "WORD": "none",
}
_SETTINGS = {  # settings whose kind of value is more specific than their type
    "socket_group": "group", "publish_group": "group", "admin_group": "group",
    "compiler_user": "user", "transfer_user": "user",
    "compiler_service": "file", "transfer_service": "file",
}
_DIRECTORY_SETTINGS = ("cache_dir", "state_dir", "temp_dir", "trusted_keys", "fleet_keys",
                       "package_path")


def _names(value):
    """Returns the names in '[KEY-PREFIX...]', 'FILE|DIR|URL...' or 'FILE.html'."""
    words = value.replace("[,ID...]", "").strip("[]").replace("...", "").split("|")
    return [word.split(".")[0] for word in words]


def _kind(value):
    """Returns the kind of a value that the help calls |value|, or None if it is unknown."""
    names = _names(value)
    if not any(name in _VALUES for name in names):
        is_choice = len(names) > 1 or value.islower()
        return "word " + " ".join(names) if is_choice else None
    kinds = [_VALUES.get(name, "none") for name in names]
    return next((k for k in ("file", "directory", "key") if k in kinds), kinds[0])


def of_option(command, option):
    """Returns the kind of |option|'s value: '' for a flag, None if it is unknown."""
    if option["kind"] == "flag":
        return ""
    name = option["name"]
    by_name = _OF_COMMANDS.get((command, name)) or _OPTIONS.get(name)
    if by_name:
        return by_name
    if option["kind"] in ("number", "time", "size"):
        return "none"
    return _kind(option["value"])


def of_words(command):
    """Returns the kind of the words after |command|: '' if it takes none, None if it is unknown."""
    if not command["words"]:
        return ""
    by_name = _WORDS_OF_COMMANDS.get(command["name"])
    if by_name:
        return by_name
    kinds = {_kind(word) for word in command["words"].split()}
    return kinds.pop() if len(kinds) == 1 else None


def of_setting(setting):
    key = setting["key"]
    if setting["type"] == "CHOICE":
        return "word " + setting["rule"].replace("|", " ")
    if key in _SETTINGS:
        return _SETTINGS[key]
    if key in _DIRECTORY_SETTINGS:
        return "directory"
    return "file" if setting["type"] == "PATH" else "none"


def kilnd_options(tables, flags):
    """Returns kilnd's flags and settings in the form of the other programs' options."""
    options = [{"name": name, "letter": letter, "value": value, "help": text.replace("`", ""),
                "kind": "text" if value else "flag", "of": "file" if value else ""}
               for name, letter, value, text in flags]
    for setting in tables["settings"]:
        options.append({"name": setting["key"].replace("_", "-"), "letter": "", "kind": "text",
                        "value": setting["type"], "help": setting["help"],
                        "of": of_setting(setting)})
    return options


def unknown(tables):
    """Returns complaints about options and words whose kind is unknown."""
    own = [("kiln-driver", o) for o in tables["kiln-driver"]["options"]]
    own += [("", o) for o in tables["options"]]
    for command in tables["kilnctl"]["commands"]:
        own += [(command["name"], o) for o in command["options"]]
        if of_words(command) is None:
            yield f"the words '{command['words']}' of 'kilnctl {command['name']}'"
    for command, option in own:
        if of_option(command, option) is None:
            yield f"the value '{option['value']}' of '{command} --{option['name']}'"
