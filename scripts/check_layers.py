#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fail if an include goes against the arrows of the architecture.

Usage: scripts/check_layers.py [ROOT]

docs/architecture.md shows the arrows. A file belongs to the longest directory of MAY_INCLUDE that
is a prefix of its path. It may include that directory, and the directories or single headers of
that row. ONLY_IN lists the places that may include an external library.

A row for a single file is an exception to the arrows between directories, and so is a header that a
row names. There may be at most EXCEPTIONS_MAX exceptions. If other directories need a header, move
it to a directory that they may include.

A place in ONLY_IN may also be a file. This does not count as an exception, because it permits less
than the file's directory would, and allows no arrow between directories.
"""
import re
import sys

import tree

SERVICE_MAY = {f"engine/{part}" for part in
               ("data", "store", "package", "fleet", "topology", "miopen", "tuning", "solver",
                "jobs", "compile", "digest")}

MAY_INCLUDE = {  # for each directory, the other directories or single headers that it may include
    "common/base": set(),
    "common/log": {"common/base"},
    "common/protocol": {"common/base"},
    "common/target": {"common/base", "common/protocol"},
    "common/miopen": {"common/base", "common/protocol", "common/target"},
    "libclient/include": set(),
    "libclient": {"common"},
    "libclient/rtc": {"common", "libclient", "engine/digest"},
    "libclient/torch": set(),
    "engine/digest": {"common"},
    "engine/codec": {"common", "engine/digest"},
    "engine/manifest": {"common", "engine/digest"},
    "engine/fleet": {"common", "engine/digest", "engine/codec", "engine/manifest"},
    "engine/data": {"common", "engine/digest"},
    "engine/sandbox": {"common"},
    "engine/compile": {"common", "engine/digest", "engine/sandbox"},
    "engine/db": {"common"},
    "engine/store": {"common", "engine/db", "engine/digest", "engine/codec"},
    "engine/miopen/names": {"common"},
    "engine/miopen": {"common", "engine/db", "engine/digest", "engine/codec"},
    "engine/package": {"common", "engine/db", "engine/miopen", "engine/digest", "engine/codec",
                       "engine/manifest", "engine/data"},
    "engine/topology": {"common", "engine/miopen/names"},
    "engine/transfer": {"common", "engine/db", "engine/miopen", "engine/package", "engine/digest",
                        "engine/codec", "engine/manifest", "engine/sandbox", "engine/fleet"},
    "engine/tuning": {"common", "engine/data", "engine/db", "engine/miopen", "engine/digest"},
    "engine/solver": {"common"},
    # Only kiln-transfer links libcurl, so kilnd must not include code that transfers files.
    "engine/jobs": {"common", "engine/compile", "engine/fleet", "engine/transfer/transfer_job.h"},
    # engine.c opens and closes the service, so the service may include engine.h, but no other file
    # of engine/.
    "engine/service": {"common", "engine/engine.h"} | SERVICE_MAY,
    "engine/embed": {"common", "engine"},
    "engine": {"common"},
    "daemon/loop": {"common", "engine/jobs"},
    "daemon/programs": {"common", "engine/compile", "engine/transfer", "engine/sandbox"},
    "daemon": {"common", "engine"},
    # Programs of cli/ must not be able to do more than other clients, so they must not include the
    # code for messages and databases. The table of settings (config.def) is allowed for the manual
    # and for kilnctl doctor.
    "cli": {"common/base", "engine/digest", "engine/codec", "engine/manifest",
            "engine/fleet", "engine/miopen/names", "engine/transfer/fleet_remote.h",
            "engine/compile/code_object.h", "daemon/config/config.def"},
    "db/embed": {"common", "engine"},
    "kernels": set(),
    "tests": {"common", "libclient", "engine", "daemon", "cli"},
}
EXCEPTIONS_MAX = 5
OURS = ("common", "libclient", "engine", "daemon", "cli", "kernels", "db", "tests")

ONLY_IN = {  # for each header of an external library, the only places that may include it
    "uv.h": ("daemon/loop",),
    "sqlite3.h": ("engine/db",),
    "zstd.h": ("engine/codec",),
    "bzlib.h": ("engine/codec",),
    "curl/": ("engine/transfer",),
    "seccomp.h": ("engine/sandbox", "tests/unit/engine/sandbox", "tests/support/refused_call.c"),
    "cjson/": ("common/base/json", "tests/support/failing_json"),
    "nettle/": ("engine/digest",),
    "curses.h": ("cli/kilnctl/top_screen.c",),
    "dlfcn.h": ("libclient/device", "libclient/rtc", "libclient/connection/private_kilnd.c",
                "engine/compile"),
    "CL/": ("libclient/device",),
}
# Only libkiln itself, the programs of cli/, the tests and GPU sources may include <kiln/...>. GPU
# sources do not include libkiln's headers but those of kernels/, whose names also begin with
# "kiln/".
PUBLIC_FOR = ("libclient", "cli", "tests", "kernels")
# Directories whose files may only include system headers and <kiln/...>.
SYSTEM_ONLY = ("libclient/include", "kernels")
# Tests use these libraries to check results, or to damage files.
TESTS_SEE = ("sqlite3.h", "dlfcn.h", "CL/", "uv.h", "zstd.h", "nettle/", "bzlib.h")

INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)


def home_of(rel):
    """Returns the longest entry of MAY_INCLUDE that contains |rel|, or None."""
    fitting = [home for home in MAY_INCLUDE if rel == home or rel.startswith(home + "/")]
    return max(fitting, key=len, default=None)


def lies_under(target, directories):
    return any(target == f or target.startswith(f + "/") for f in directories)


def complain_of_ours(rel, home, target):
    if target.startswith("kiln/"):
        return None if rel.startswith(PUBLIC_FOR) else f"{home} may not include <{target}>"
    if rel.startswith(SYSTEM_ONLY) and '/' in target and target.split("/")[0] in OURS:
        return f"{home} may not include '{target}'"
    if target.split("/")[0] not in OURS or lies_under(target, MAY_INCLUDE[home] | {home}):
        return None
    return f"{home} may not include '{target}'"


def complain_of_libraries(rel, target):
    for header, owners in ONLY_IN.items():
        matches = target.startswith(header) if header.endswith("/") else target == header
        if not matches or rel.startswith(owners):
            continue
        if rel.startswith("tests/bench/") or (rel.startswith("tests/") and header in TESTS_SEE):
            continue
        return f"only {' and '.join(owners)} may include <{target}>"
    return None


def complaints(root):
    for path, rel in tree.with_suffix(tree.CODE + tree.GPU, root):
        home = home_of(rel)
        if home is None:
            continue
        for target in INCLUDE.findall(path.read_text(encoding="utf-8", errors="replace")):
            for text in (complain_of_ours(rel, home, target), complain_of_libraries(rel, target)):
                if text:
                    yield f"{rel}: {text}"


def is_file(row):
    return "." in row.rsplit("/", 1)[-1]


def count_exceptions(table):
    """Returns the number of rows for single files plus the number of single headers. A header that
    two directories may include counts twice, unless one directory is inside the other."""
    rows = sum(is_file(row) for row in table)
    pairs = {(row, target) for row in table for target in table[row] if is_file(target)}
    inherited = {(row, target) for row, target in pairs
                 if any((parent, target) in pairs for parent in parents_of(row))}
    return rows + len(pairs - inherited)


def all_includes(root):
    """Returns the path of every file with the set of what it includes."""
    return [(rel, set(INCLUDE.findall(path.read_text(encoding="utf-8", errors="replace"))))
            for path, rel in tree.with_suffix(tree.CODE + tree.GPU, root)]


def stale(root, table=MAY_INCLUDE, exceptions_max=EXCEPTIONS_MAX):
    """Yields complaints about rows of removed files, unused entries of rows, and too many
    exceptions."""
    paths = [rel for _, rel in tree.files(root)]
    known = set(paths) | {parent for path in paths for parent in parents_of(path)}
    includes = all_includes(root)
    for row, targets in table.items():
        if row not in known:
            yield f"layer table: '{row}' does not exist"
            continue
        included = set().union(*(names for rel, names in includes if lies_under(rel, {row})))
        for target in sorted(targets):
            if target not in known:
                yield f"layer table: '{target}', which '{row}' may include, does not exist"
            elif not any(lies_under(name, {target}) for name in included):
                yield f"layer table: no file of '{row}' includes '{target}'"
    count = count_exceptions(table)
    if count > exceptions_max:
        yield (f"layer table: {count} single files and headers, but EXCEPTIONS_MAX is "
               f"{exceptions_max}")


def stale_owners(root, owners_of=None):
    """Yields complaints about places that may include a library's header but do not."""
    includes = all_includes(root)
    for header, owners in (owners_of or ONLY_IN).items():
        for owner in owners:
            if not any(name.startswith(header) for rel, names in includes
                       if rel.startswith(owner) for name in names):
                yield f"library table: no file of '{owner}' includes <{header}>"


def parents_of(path):
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else tree.ROOT
    found = [*complaints(root), *stale(root), *stale_owners(root)]
    print("\n".join(found) or "layers hold")
    if found:
        print("docs/architecture.md shows the arrows; scripts/check_layers.py lists them",
              file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
