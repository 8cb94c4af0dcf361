# SPDX-License-Identifier: MIT
"""Gets the completions of a line that bash and zsh offer."""
import atexit
import functools
import os
import pathlib
import pty
import re
import select
import subprocess
import tempfile
import time

# Requests a completion as readline does: words end at blanks, and ':' and '=' are separate words.
BASH = r"""
source "$1"
COMP_LINE=$2 COMP_POINT=${#2} COMP_CWORD=$(($# - 3)) COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
COMP_WORDS=("${@:3}")
compopt() { :; }
COMPREPLY=()
"$(complete -p "$3" | sed 's/.*-F \([^ ]*\) .*/\1/')" "$3" "${@: -1}" ""
printf '%s\n' "${COMPREPLY[@]}"
"""
ZSHRC = r"""
fpath=("$KILN_COMPLETIONS" $fpath)
autoload -Uz compinit && compinit -u -d "$ZDOTDIR/dump"
compadd() {
    local -a hits
    if (( ${@[(I)-[OAD]]} )); then
        builtin compadd "$@"
        return
    fi
    builtin compadd -O hits "$@"
    (( $#hits )) && print -lr -- $hits >> "$KILN_OUT"
    builtin compadd "$@"
}
probe() {
    BUFFER=$KILN_LINE
    CURSOR=$#BUFFER
    zle complete-word
    exit
}
zle -N zle-line-init probe
"""


def split(line):
    """Returns |line| as bash passes it to a completion function."""
    words = [part for word in line.split() for part in re.findall(r"[:=]+|[^:=]+", word)]
    return words + ([""] if line.endswith(" ") else [])


def ask_bash(directory, line, environment, seconds=60):
    words = split(line)
    script = directory / "bash" / words[0]
    done = subprocess.run(["bash", "--norc", "-c", BASH, "bash", str(script), line, *words],
                          env=environment, capture_output=True, text=True, timeout=seconds,
                          check=False)
    if done.stderr or done.returncode:
        raise AssertionError(f"bash on '{line}': exit {done.returncode}: {done.stderr}")
    return [word for word in done.stdout.splitlines() if word]


def _zsh_on_terminal(environment, seconds):
    """Runs an interactive zsh until it exits. Returns its terminal output."""
    parent, child = pty.openpty()
    try:
        process = subprocess.Popen(["zsh", "-d", "-i"], stdin=child, stdout=child, stderr=child,
                                   env=environment, start_new_session=True)
        os.close(child)
        child = -1
        said = b""
        end = time.monotonic() + seconds
        while select.select([parent], [], [], max(0.0, end - time.monotonic()))[0]:
            try:
                some = os.read(parent, 4096)
            except OSError:  # Linux's way to say that the other end is closed
                break
            if not some:
                break
            said += some
        process.wait(timeout=max(0.1, end - time.monotonic()))
        return said.decode(errors="replace")
    finally:
        os.close(parent)
        if child >= 0:
            os.close(child)


@functools.cache
def _zsh_home():
    """Returns a directory with a .zshrc for the tests, in which zsh caches its list of completions.
    """
    home = tempfile.TemporaryDirectory(prefix="kiln-zsh-")
    atexit.register(home.cleanup)
    (pathlib.Path(home.name) / ".zshrc").write_text(ZSHRC)
    return pathlib.Path(home.name)


def ask_zsh(directory, line, environment, seconds=60):
    home = _zsh_home()
    out = home / "out"
    out.write_text("")
    said = _zsh_on_terminal({**environment, "ZDOTDIR": str(home), "TERM": "xterm",
                             "KILN_LINE": line,
                             "KILN_OUT": str(out), "KILN_COMPLETIONS": str(directory / "zsh")},
                            seconds)
    if re.search(r"_kiln\w*:\d+:|command not found|parse error", said):
        raise AssertionError(f"zsh on '{line}' says: {said}")
    return sorted(set(out.read_text().splitlines()))
