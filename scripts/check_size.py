#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Report the longest files and functions; fail beyond the hard limits.

Usage: scripts/check_size.py [--report] [ROOT]

Hard limits (docs/style.md): 800 lines a file, 80 lines a function, five parameters. --report only
prints. Needs Universal Ctags; exits with 77 if it is not installed.

The limit on parameters has two exceptions: functions whose signature is defined elsewhere, and
those of kernels/, where parameters are registers.
"""
import shutil
import statistics
import subprocess
import sys

import tree

FILE_STOP, FUNCTION_STOP = 800, 80
FILE_WANTED, FUNCTION_WANTED = 400, 40
PARAMETERS_STOP = 5
# Signatures defined elsewhere: a test that replaces or wraps such a function must repeat them.
OUTSIDE = {
    "mmap": "libc", "mmap64": "libc", "copy_file_range": "libc",
    "cuTensorMapEncodeIm2col": "CUDA driver", "cuTensorMapEncodeTiled": "CUDA driver",
}
TAIL = 10


def file_sizes(root):
    return [(path.read_bytes().count(b"\n"), rel)
            for path, rel in tree.with_suffix(tree.CODE + tree.GPU, root)]


def function_tags(root):
    """(name, path, fields) of every function with a body."""
    paths = [rel for _, rel in tree.with_suffix((".c", ".h"), root)]
    command = ["ctags", "-f", "-", "--languages=C", "--langmap=C:.c.h", "--kinds-C=f",
               "--fields=+neS", "--sort=no", "-I", "KILN_MUST_CHECK,KILN_PRINTF+", "-L", "-"]
    tags = subprocess.run(command, input="\n".join(paths), cwd=root, check=True, text=True,
                          capture_output=True).stdout
    for tag in tags.splitlines():
        name, path, *rest = tag.split("\t")
        fields = dict(f.split(":", 1) for f in rest if f.startswith(("line:", "end:",
                                                                     "signature:")))
        if "end" in fields:
            yield name, path, fields


def function_sizes(tags):
    """(lines, 'file:line name') of every function."""
    return [(int(fields["end"]) - int(fields["line"]) + 1, f"{path}:{fields['line']} {name}")
            for name, path, fields in tags]


def count_parameters(signature):
    """Of '(int a, void (*f)(int, int))': 2."""
    depth, count = 0, 1
    for letter in signature[1:-1]:
        depth += (letter in "([{") - (letter in ")]}")
        count += letter == "," and depth == 0
    return count if signature[1:-1].strip() not in ("", "void") else 0


def too_many_parameters(tags):
    """A complaint about every function with more parameters than the hard limit allows."""
    for name, path, fields in tags:
        count = count_parameters(fields.get("signature", "()"))
        # WRAP() replaces a function, whose own signature is checked where it is defined.
        is_ours = (name.removeprefix("__wrap_") not in OUTSIDE and name != "WRAP"
                   and not path.startswith("kernels/"))
        if count > PARAMETERS_STOP and is_ours:
            yield f"{path} {name} has {count} parameters, at most {PARAMETERS_STOP} are allowed " \
                  "(use an options struct)"


def report(what, sizes, wanted, stop):
    """Prints the summary and the largest; returns how many are beyond the hard limit."""
    if not sizes:
        return 0
    lines = [size for size, _ in sizes]
    within = 100 * sum(size <= wanted for size in lines) // len(lines)
    print(f"{len(sizes)} {what}: median {statistics.median(lines):.0f} lines, "
          f"{within} % within {wanted}, longest {max(lines)} (hard limit {stop})")
    for size, name in sorted(sizes, reverse=True)[:TAIL]:
        if size > wanted:
            print(f"  {size:5} {name}" + ("   TOO LONG" if size > stop else ""))
    return sum(size > stop for size in lines)


def main():
    arguments = [a for a in sys.argv[1:] if a != "--report"]
    root = arguments[0] if arguments else tree.ROOT
    if not shutil.which("ctags"):
        print("check_size: ctags is missing: run scripts/install-deps check", file=sys.stderr)
        return 77
    beyond = report("files", file_sizes(root), FILE_WANTED, FILE_STOP)
    tags = list(function_tags(root))
    complaints = list(too_many_parameters(tags))
    print("".join(f"{text}\n" for text in complaints), end="")
    beyond += len(complaints)
    beyond += report("functions", function_sizes(tags), FUNCTION_WANTED, FUNCTION_STOP)
    return bool(beyond) and "--report" not in sys.argv


if __name__ == "__main__":
    sys.exit(main())
