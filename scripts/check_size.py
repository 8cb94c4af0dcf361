#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Report the tail of file and function sizes; fail beyond the hard stops.

Usage: scripts/check_size.py [--report | --shrink] [ROOT]

Hard stops (docs/style.md): 800 lines a file, 80 lines a function, five parameters. The tail is what
makes code unpleasant, so it is printed, longest first. Needs Universal Ctags; exits 77 without it.

Functions that had more parameters when the check was made stand in check_size_parameters.txt, with
their number. That list can only shrink: a function that is gone or has fewer must leave it, which
--shrink does; nothing adds one. Functions whose signature somebody else defines do not count, nor do
those of kernels/: there the parameters of a function are registers.
"""
import pathlib
import shutil
import statistics
import subprocess
import sys

import tree

FILE_STOP, FUNCTION_STOP = 800, 80
FILE_WANTED, FUNCTION_WANTED = 400, 40
PARAMETERS_STOP = 5
PARAMETERS_LIST = "scripts/check_size_parameters.txt"
# Signatures that others define; a test that replaces or wraps such a function must repeat them.
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
        fields = dict(f.split(":", 1) for f in rest if f.startswith(("line:", "end:", "signature:")))
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
    """{'file name': number} of the functions beyond the stop."""
    counts = {}
    for name, path, fields in tags:
        count = count_parameters(fields.get("signature", "()"))
        # WRAP() replaces a function, whose own signature is checked where it is defined.
        is_ours = (name.removeprefix("__wrap_") not in OUTSIDE and name != "WRAP"
                   and not path.startswith("kernels/"))
        if count > PARAMETERS_STOP and is_ours:
            counts[f"{path} {name}"] = max(count, counts.get(f"{path} {name}", 0))
    return counts


def read_exceptions(root):
    path = pathlib.Path(root) / PARAMETERS_LIST
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [line.split(" ", 1) for line in lines if line and not line.startswith("#")]
    return {name: int(count) for count, name in rows}


def write_exceptions(root, counts):
    header = ("# Functions with more than five parameters, by scripts/check_size.py: the list can\n"
              "# only shrink.  Give the function an options struct, then run check_size.py --shrink.\n")
    rows = "".join(f"{count} {name}\n" for name, count in sorted(counts.items()))
    path = pathlib.Path(root) / PARAMETERS_LIST
    path.write_text(header + rows)
    if not rows:
        path.unlink()


def complain_of_parameters(found, allowed):
    for name, count in sorted(found.items()):
        if count > allowed.get(name, 0):
            yield f"{name} has {count} parameters, at most {PARAMETERS_STOP} may be (options struct)"
    for name, count in sorted(allowed.items()):
        if found.get(name, 0) < count:
            yield f"{PARAMETERS_LIST}: the row of '{name}' is stale: run check_size.py --shrink"


def check_parameters(root, tags, shrink):
    found, allowed = too_many_parameters(tags), read_exceptions(root)
    if shrink:
        allowed = {name: min(found[name], count) for name, count in allowed.items() if name in found}
        write_exceptions(root, allowed)
    complaints = list(complain_of_parameters(found, allowed))
    print(f"{len(found)} functions have more than {PARAMETERS_STOP} parameters, "
          f"{len(allowed)} of them are known")
    print("".join(f"  {text}\n" for text in complaints), end="")
    return len(complaints)


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
    arguments = [a for a in sys.argv[1:] if a not in ("--report", "--shrink")]
    root = arguments[0] if arguments else tree.ROOT
    if not shutil.which("ctags"):
        print("check_size: no ctags here; scripts/install-deps check brings it", file=sys.stderr)
        return 77
    beyond = report("files", file_sizes(root), FILE_WANTED, FILE_STOP)
    tags = list(function_tags(root))
    beyond += check_parameters(root, tags, "--shrink" in sys.argv)
    beyond += report("functions", function_sizes(tags), FUNCTION_WANTED, FUNCTION_STOP)
    return bool(beyond) and "--report" not in sys.argv


if __name__ == "__main__":
    sys.exit(main())
