# SPDX-License-Identifier: MIT
"""Compiles a program with hiprtc, and prints what hiprtc returns: LIBRARY SOURCE OPTION..."""
import ctypes
import hashlib
import sys

EXPRESSION = b"t<float>"


def output(library, program, what):
    size = ctypes.c_size_t()
    size_code = getattr(library, f"hiprtcGet{what}Size")(program, ctypes.byref(size))
    content = ctypes.create_string_buffer(size.value + 1)
    code = getattr(library, f"hiprtcGet{what}")(program, content)
    digest = hashlib.sha256(content.raw[:size.value]).hexdigest()
    return f"{what} {size_code} {code} {size.value} {digest}"


def main():
    library = ctypes.CDLL(sys.argv[1])
    options = [option.encode() for option in sys.argv[3:]]
    program, name = ctypes.c_void_p(), ctypes.c_char_p()
    print(library.hiprtcCreateProgram(ctypes.byref(program), sys.argv[2].encode(), b"k.cu", 0,
                                      None, None))
    print(library.hiprtcAddNameExpression(program, EXPRESSION))
    print("compile", library.hiprtcCompileProgram(program, len(options),
                                                  (ctypes.c_char_p * len(options))(*options)))
    print(output(library, program, "Code"))
    print(output(library, program, "ProgramLog"))
    print("lowered", library.hiprtcGetLoweredName(program, EXPRESSION, ctypes.byref(name)),
          name.value)
    print(library.hiprtcDestroyProgram(ctypes.byref(program)))


if __name__ == "__main__":
    main()
