#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Report the longest files and functions; fail beyond the hard limits.

Usage: scripts/check_size.py [--report] [ROOT]

Hard limits (docs/style.md): 800 lines a file, 80 lines a function, five parameters. --report only
prints. Needs Universal Ctags; exits with 77 if it is not installed.

The limit on parameters holds for functions, prototypes, function types, and pointers to functions
(members, variables and callbacks). '...' counts as one parameter. There are two exceptions:
signatures that another library defines (OUTSIDE), and kernels/, where parameters are registers.
Functions that a macro defines are not seen.
"""
import re
import shutil
import statistics
import subprocess
import sys

import tree

FILE_STOP, FUNCTION_STOP = 800, 80
FILE_WANTED, FUNCTION_WANTED = 400, 40
PARAMETERS_STOP = 5
# Functions whose signatures other libraries define: the name in kiln's code, and the function of
# the other library. kiln's function replaces or wraps that function, or is a pointer that dlsym()
# fills, so it must have the same signature. A member of a struct is named struct.member.
OUTSIDE = {
    "mmap": "libc's mmap",
    "mmap64": "libc's mmap64",
    "spawn_call": "libc's posix_spawn",
    "cuTensorMapEncodeIm2col": "the CUDA driver's cuTensorMapEncodeIm2col",
    "cuTensorMapEncodeTiled": "the CUDA driver's cuTensorMapEncodeTiled",
    "cuda_encode_im2col": "the CUDA driver's cuTensorMapEncodeIm2col",
    "cuda_encode_tiled": "the CUDA driver's cuTensorMapEncodeTiled",
    "driver_calls.launch": "the CUDA driver's cuLaunchKernel, HIP's hipModuleLaunchKernel",
    "hiprtcCreateProgram": "hiprtc's hiprtcCreateProgram",
    "nvrtcCreateProgram": "NVRTC's nvrtcCreateProgram",
    "rtc_library.create": "NVRTC's nvrtcCreateProgram, hiprtc's hiprtcCreateProgram",
    "rtc_functions.create": "NVRTC's nvrtcCreateProgram, hiprtc's hiprtcCreateProgram",
    "rtc.create": "hiprtc's hiprtcCreateProgram",
    "opencl.context": "OpenCL's clCreateContext",
    "opencl.build": "OpenCL's clBuildProgram",
    "fake_convolution": "PyTorch's at::_ops::convolution::redispatch",
    "fake_convolution_with_flags": "PyTorch's at::_ops::_convolution::redispatch",
    "fake_convolution_backward": "PyTorch's at::_ops::convolution_backward::redispatch",
    "fake_empty": "PyTorch's aoti_torch_empty_strided",
}
FIELD = re.compile("(kind|line|end|signature|struct|typeref):")
TAIL = 10


def file_sizes(root):
    return [(path.read_bytes().count(b"\n"), rel)
            for path, rel in tree.with_suffix(tree.CODE + tree.GPU, root)]


def read_tags(root):
    """Yields name, path and fields of everything that may have parameters; a member is
    struct.member."""
    paths = [rel for _, rel in tree.with_suffix((".c", ".h"), root)]
    command = ["ctags", "-f", "-", "--languages=C", "--langmap=C:.c.h", "--kinds-C=fpmtvxl",
               "--fields=+neSszt", "--sort=no", "-I", "KILN_MUST_CHECK,KILN_PRINTF+", "-L", "-"]
    tags = subprocess.run(command, input="\n".join(paths), cwd=root, check=True, text=True,
                          capture_output=True).stdout
    for tag in tags.splitlines():
        name, path, *rest = tag.split("\t")
        fields = dict(field.split(":", 1) for field in rest if FIELD.match(field))
        yield f"{fields['struct']}.{name}" if "struct" in fields else name, path, fields


def function_sizes(tags):
    """Returns the number of lines and 'file:line name' of every function with a body."""
    return [(int(fields["end"]) - int(fields["line"]) + 1, f"{path}:{fields['line']} {name}")
            for name, path, fields in tags if fields["kind"] == "f" and "end" in fields]


def count_parameters(signature):
    """Returns the number of parameters in a signature; for '(int a, void (*f)(int, int))', this is
    2."""
    depth, count = 0, 1
    for letter in signature[1:-1]:
        depth += (letter in "([{") - (letter in ")]}")
        count += letter == "," and depth == 0
    return count if signature[1:-1].strip() not in ("", "void") else 0


def parameter_lists(text):
    """Yields every parenthesised part of |text|, and those inside others, because these may be
    parameters of callbacks."""
    opened = []
    for at, letter in enumerate(text):
        if letter == "(":
            opened.append(at)
        elif letter == ")" and opened:
            yield text[opened.pop():at + 1]


def long_signatures(tags):
    """Yields name, path, line and count of every signature with more than PARAMETERS_STOP
    parameters."""
    for name, path, fields in tags:
        text = fields.get("signature", "") + fields.get("typeref", "")
        count = max(map(count_parameters, parameter_lists(text)), default=0)
        # WRAP() defines a wrapper. The wrapped function's own signature is checked where it is
        # defined.
        if count > PARAMETERS_STOP and name != "WRAP" and not path.startswith("kernels/"):
            yield name.removeprefix("__wrap_"), path, fields["line"], count


def too_many_parameters(tags):
    """Yields a complaint about every signature of kiln's own that is too long."""
    for name, path, line, count in long_signatures(tags):
        if name not in OUTSIDE:
            yield f"{path}:{line} {name} has {count} parameters, at most {PARAMETERS_STOP} are " \
                  "allowed (use an options struct)"


def unused_exceptions(tags):
    """Yields a complaint about every unnecessary entry of OUTSIDE."""
    for name in sorted(OUTSIDE.keys() - {name for name, *_ in long_signatures(tags)}):
        yield f"check_size: OUTSIDE names '{name}', which does not exist or has at most " \
              f"{PARAMETERS_STOP} parameters"


def report(what, sizes, wanted, stop):
    """Prints the summary and the largest items. Returns how many are beyond the hard limit."""
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
    tags = list(read_tags(root))
    complaints = [*too_many_parameters(tags), *unused_exceptions(tags)]
    print("".join(f"{text}\n" for text in complaints), end="")
    beyond += len(complaints)
    beyond += report("functions", function_sizes(tags), FUNCTION_WANTED, FUNCTION_STOP)
    return bool(beyond) and "--report" not in sys.argv


if __name__ == "__main__":
    sys.exit(main())
