#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Report the tail of file and function sizes; fail beyond the hard stops.

Usage: scripts/check_size.py [--report] [ROOT]

Hard stops (docs/style.md): 800 lines a file, 80 lines a function. The tail is what makes code
unpleasant, so it is printed, longest first. Needs Universal Ctags; exits 77 without it.
"""
import shutil
import statistics
import subprocess
import sys

import tree

FILE_STOP, FUNCTION_STOP = 800, 80
FILE_WANTED, FUNCTION_WANTED = 400, 40
TAIL = 10


def file_sizes(root):
    return [(path.read_bytes().count(b"\n"), rel)
            for path, rel in tree.with_suffix(tree.CODE + tree.GPU, root)]


def function_sizes(root):
    """(lines, 'file:line name') of every function with a body."""
    paths = [rel for _, rel in tree.with_suffix((".c", ".h"), root)]
    command = ["ctags", "-f", "-", "--languages=C", "--langmap=C:.c.h", "--kinds-C=f",
               "--fields=+ne", "--sort=no", "-I", "KILN_MUST_CHECK,KILN_PRINTF+", "-L", "-"]
    tags = subprocess.run(command, input="\n".join(paths), cwd=root, check=True, text=True,
                          capture_output=True).stdout
    sizes = []
    for tag in tags.splitlines():
        name, path, *rest = tag.split("\t")
        fields = dict(f.split(":", 1) for f in rest if f.startswith(("line:", "end:")))
        if "end" in fields:
            first, last = int(fields["line"]), int(fields["end"])
            sizes.append((last - first + 1, f"{path}:{first} {name}"))
    return sizes


def report(what, sizes, wanted, stop):
    """Prints the summary and the tail; returns how many are beyond the hard stop."""
    if not sizes:
        return 0
    lines = [size for size, _ in sizes]
    within = 100 * sum(size <= wanted for size in lines) // len(lines)
    print(f"{len(sizes)} {what}: median {statistics.median(lines):.0f} lines, "
          f"{within} % within {wanted}, longest {max(lines)} (hard stop {stop})")
    for size, name in sorted(sizes, reverse=True)[:TAIL]:
        if size > wanted:
            print(f"  {size:5} {name}" + ("   TOO LONG" if size > stop else ""))
    return sum(size > stop for size in lines)


def main():
    arguments = [a for a in sys.argv[1:] if a != "--report"]
    root = arguments[0] if arguments else tree.ROOT
    if not shutil.which("ctags"):
        print("check_size: no ctags here; scripts/install-deps check brings it", file=sys.stderr)
        return 77
    beyond = report("files", file_sizes(root), FILE_WANTED, FILE_STOP)
    beyond += report("functions", function_sizes(root), FUNCTION_WANTED, FUNCTION_STOP)
    return bool(beyond) and "--report" not in sys.argv


if __name__ == "__main__":
    sys.exit(main())
