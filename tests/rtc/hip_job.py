# SPDX-License-Identifier: MIT
"""Compiles a program with hiprtc, and prints what hiprtc returns:
[--name NAME (empty: none)] [--header NAME=TEXT] LIBRARY SOURCE OPTION..."""
import argparse
import ctypes
import hashlib

EXPRESSION = b"t<float>"


def texts(values):
    return (ctypes.c_char_p * len(values))(*(v.encode() for v in values))


def output(library, program, what):
    size = ctypes.c_size_t()
    size_code = getattr(library, f"hiprtcGet{what}Size")(program, ctypes.byref(size))
    content = ctypes.create_string_buffer(size.value + 1)
    code = getattr(library, f"hiprtcGet{what}")(program, content)
    raw = content.raw[:size.value]
    shown = repr(raw) if what == "ProgramLog" else hashlib.sha256(raw).hexdigest()
    return f"{what} {size_code} {code} {size.value} {shown}"


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--name", default="k.cu")
    parser.add_argument("--header", action="append", default=[])
    parser.add_argument("library")
    parser.add_argument("source")
    given, options = parser.parse_known_args()
    library = ctypes.CDLL(given.library)
    headers = [header.partition("=") for header in given.header]
    program, name = ctypes.c_void_p(), ctypes.c_char_p()
    print(library.hiprtcCreateProgram(
        ctypes.byref(program), given.source.encode(), given.name.encode() or None, len(headers),
        texts([text for _, _, text in headers]), texts([name for name, _, _ in headers])))
    print(library.hiprtcAddNameExpression(program, EXPRESSION))
    print("compile", library.hiprtcCompileProgram(program, len(options), texts(options)))
    print(output(library, program, "Code"))
    if "-fgpu-rdc" in options:
        print(output(library, program, "Bitcode"))
    print(output(library, program, "ProgramLog"))
    print("lowered", library.hiprtcGetLoweredName(program, EXPRESSION, ctypes.byref(name)),
          name.value)
    print(library.hiprtcDestroyProgram(ctypes.byref(program)))


if __name__ == "__main__":
    main()
