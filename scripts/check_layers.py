#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fail if an include goes against the arrows of the architecture.

Usage: scripts/check_layers.py [ROOT]

docs/architecture.md shows the arrows. A file belongs to the longest directory of MAY_INCLUDE that
is a prefix of its path. It may include that directory, and the directories or single headers of
that row. Each external library may be included from one directory.

A row for a single file and a header that a row names are exceptions to the arrows between
directories. EXCEPTIONS is their number, which may only shrink.
"""
import re
import sys

import tree

SERVICE_MAY = {f"engine/{part}" for part in
               ("data", "store", "package", "topology", "miopen", "tuning", "solver", "jobs", "compile",
                 "digest")}

# Single headers, because whole directories would let the command line do more than other clients:
# common/ also has the frames and messages, engine/miopen/ and engine/package/ have the databases.
CLI_MAY = {f"common/{name}.h"
           for name in ("array", "bytes", "clock", "fd_message", "fs", "hash_table", "json", "paths",
                        "random", "units", "utf8")} | {
    "engine/digest", "engine/miopen/bzip2.h", "engine/miopen/database_id.h",
    "engine/miopen/miopen_files.h", "engine/miopen/tuning_file.h", "engine/package/manifest.h"}

MAY_INCLUDE = {  # directory -> directories, or single headers, that it may include besides itself
    "common": set(),
    "libclient/include": set(),
    "libclient": {"common"},
    "engine/digest": {"common"},
    "engine/data": {"common", "engine/digest"},
    "engine/sandbox": {"common"},
    "engine/compile": {"common", "engine/digest", "engine/sandbox"},
    "engine/db": {"common"},
    "engine/store": {"common", "engine/db", "engine/digest"},
    "engine/miopen": {"common", "engine/db", "engine/digest"},
    "engine/package": {"common", "engine/db", "engine/miopen", "engine/digest",
                       "engine/store/codec_zstd.h", "engine/data"},
    "engine/topology": {"common", "engine/miopen"},
    "engine/transfer": {"common", "engine/miopen", "engine/package", "engine/digest",
                        "engine/sandbox", "engine/db/working_directory.h"},
    "engine/tuning": {"common", "engine/data", "engine/db", "engine/miopen", "engine/digest"},
    "engine/solver": {"common"},
    "engine/jobs": {"common", "engine/compile", "engine/transfer/transfer_job.h"},
    "engine/service": {"common", "engine/engine.h"} | SERVICE_MAY,
    "engine/embed": {"common", "engine/service", "engine/engine.h", "engine/jobs",
                     "engine/compile"},
    "engine": {"common"},
    "daemon/loop": {"common", "engine/jobs/executor.h"},
    "daemon/workers/kiln_compiler.c": {"common", "engine/compile", "engine/sandbox"},
    "daemon/workers/kiln_transfer.c": {"common", "engine/transfer", "engine/sandbox"},
    "daemon": {"common", "engine"},
    "cli": CLI_MAY,
    "cli/manual": CLI_MAY | {"cli", "daemon/config/config.def"},
    "cli/kilnctl/doctor_directories.c": CLI_MAY | {"cli", "daemon/config/config.def"},
    "db/embed": {"common", "engine"},
    "kernels": set(),
    "tests": {"common", "libclient", "engine", "daemon", "cli", "kernels"},
}
# Rows for single files (3), headers for the command line (16), other single headers (8). Most cannot
# become arrows between directories, which would open more than is needed (CLI_MAY).
EXCEPTIONS = 27
OURS = ("common", "libclient", "engine", "daemon", "cli", "kernels", "db", "tests")

ONLY_IN = {  # header of an external library -> the only places that may include it
    "uv.h": ("daemon/loop",),
    "sqlite3.h": ("engine/db",),
    "zstd.h": ("engine/store",),
    "zdict.h": ("engine/store",),
    "bzlib.h": ("engine/miopen",),
    "curl/": ("engine/transfer",),
    "seccomp.h": ("engine/sandbox", "tests/support/refused_call.c"),
    "cjson/": ("common/json", "tests/support/failing_json"),
    "cJSON.h": ("common/json",),
    "nettle/": ("engine/digest",),
    "curses.h": ("cli/kilnctl/top_screen.c",),
    "dlfcn.h": ("libclient/device", "libclient/connection/private_kilnd.c", "engine/compile"),
    "CL/": ("libclient/device", "engine/compile"),
}
# Only libkiln itself, the programs of cli/ and the tests include the public headers (<kiln/...>). GPU
# sources include the prelude under the same prefix.
PUBLIC_FOR = ("libclient", "cli", "tests", "kernels")
SYSTEM_ONLY = ("libclient/include", "kernels")  # only system headers and <kiln/...>
# Tests check results with these libraries, or damage files with them.
TESTS_SEE = ("sqlite3.h", "dlfcn.h", "CL/", "uv.h", "zstd.h", "nettle/", "bzlib.h")

INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)


def home_of(rel):
    """The longest entry of MAY_INCLUDE that contains |rel|, or None."""
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
    """Rows for single files, and single headers. A header that two directories may include counts
    twice, but not if one directory is within the other."""
    rows = sum(is_file(row) for row in table)
    pairs = {(row, target) for row in table for target in table[row] if is_file(target)}
    inherited = {(row, target) for row, target in pairs
                 if any((parent, target) in pairs for parent in parents_of(row))}
    return rows + len(pairs - inherited)


def stale(root, table=MAY_INCLUDE, exceptions=EXCEPTIONS):
    """Complaints: rows of removed files, unused entries of rows, a wrong number of exceptions."""
    paths = [rel for _, rel in tree.files(root)]
    known = set(paths) | {parent for path in paths for parent in parents_of(path)}
    included = {}  # row -> what its files include
    for path, rel in tree.with_suffix(tree.CODE + tree.GPU, root):
        text = path.read_text(encoding="utf-8", errors="replace")
        for row in (row for row in table if rel == row or rel.startswith(row + "/")):
            included.setdefault(row, set()).update(INCLUDE.findall(text))
    for row, targets in table.items():
        if row not in known:
            yield f"layer table: '{row}' does not exist"
            continue
        for target in sorted(targets):
            if target not in known:
                yield f"layer table: '{target}', which '{row}' may include, does not exist"
            elif is_file(target) and not any(target in included.get(other, ()) for other in table
                                             if target in table[other]):
                yield f"layer table: no file of '{row}' includes '{target}'"
    count = count_exceptions(table)
    if count != exceptions:
        yield f"layer table: {count} single files and headers, but EXCEPTIONS is {exceptions}; " \
              "it may only shrink"


def parents_of(path):
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else tree.ROOT
    found = list(complaints(root)) + list(stale(root))
    print("\n".join(found) or "layers hold")
    if found:
        print("docs/architecture.md shows the arrows; scripts/check_layers.py lists them",
              file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
