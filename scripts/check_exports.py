#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fail unless libkiln exports exactly its API and needs nothing but libc.

Usage: scripts/check_exports.py LIBKILN.SO [--map FILE] [--symbols FILE] [--include DIR]
                                [--sanitized]

Four lists must agree: the symbols that the library exports (nm -D), the symbols that
libclient/exports.map and Debian's libkiln0.symbols list, and the functions that the public headers
declare. With --sanitized, the libraries that it needs are not checked, because a sanitizer needs
its run-time library. Exits with 77 if nm or readelf is not installed.
"""
import argparse
import fnmatch
import pathlib
import re
import shutil
import subprocess
import sys

import tree

LIBC = re.compile(r"(libc|ld-linux-[a-z0-9-]+)\.so\.[0-9]+$")


def run(*command):
    return subprocess.run(command, check=True, text=True, capture_output=True).stdout


def exported(library):
    """Returns the names of functions and data that |library| exports, without versions."""
    rows = (row.split() for row in run("nm", "-D", "--defined-only", library).splitlines())
    return {row[-1].split("@")[0] for row in rows if row[-2] != "A"}


def allowed(map_file):
    """Returns the names or patterns in the "global:" sections of a version script."""
    text = re.sub(r"/\*.*?\*/|#[^\n]*", " ", map_file.read_text(), flags=re.S)
    names = set()
    for section in re.findall(r"global\s*:(.*?)(?:local\s*:|\})", text, flags=re.S):
        names |= set(section.replace(";", " ").split())
    return names


def packaged(symbols_file):
    """Returns the names in the symbols file of a Debian package."""
    return set(re.findall(r"^ (kiln_\w+)@", symbols_file.read_text(), flags=re.M))


def declared(directory):
    """Returns the functions that the public headers declare."""
    names = set()
    for header in sorted(directory.glob("**/*.h")):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", header.read_text(), flags=re.S)
        text = re.sub(r"^\s*#.*$", " ", text, flags=re.M)
        text = re.sub(r"\btypedef\b[^;]*;", " ", text)
        names |= set(re.findall(r"\b(kiln_\w+)\s*\(", text))
    return names


def needed(library):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", library))


def complaints(options):
    names, patterns = exported(options.binary), allowed(options.map)
    api = declared(options.include)
    for name in sorted(names):
        if not any(fnmatch.fnmatchcase(name, p) for p in patterns):
            yield f"{name} is exported, but {options.map.name} does not list it"
        if name not in api:
            yield f"{name} is exported, but no public header declares it"
    for pattern in sorted(patterns):
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            yield f"{options.map.name} lists {pattern}, but the library does not export it"
    for name in sorted(api - names):
        yield f"{name} is declared in a public header, but not exported"
    for name in sorted(names ^ packaged(options.symbols)):
        yield (f"{name} is exported, but {options.symbols.name} does not list it" if name in names
               else f"{options.symbols.name} lists {name}, but the library does not export it")
    for library in needed(options.binary):
        if not options.sanitized and not LIBC.match(library):
            yield f"libkiln needs {library}; it may need only libc"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--map", type=pathlib.Path, default=tree.ROOT / "libclient/exports.map")
    parser.add_argument("--symbols", type=pathlib.Path,
                        default=tree.ROOT / "cmake/packaging/debian/libkiln0.symbols")
    parser.add_argument("--include", type=pathlib.Path, default=tree.ROOT / "libclient/include")
    parser.add_argument("--sanitized", action="store_true")
    options = parser.parse_args()
    for tool in ("nm", "readelf"):
        if not shutil.which(tool):
            print(f"check_exports: {tool} is not installed: install Debian's binutils",
                  file=sys.stderr)
            return 77
    found = list(complaints(options))
    print("\n".join(found) or "libkiln exports its API, and only that")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
