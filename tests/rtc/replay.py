# SPDX-License-Identifier: MIT
"""Compiles generated programs with NVRTC, and prints what NVRTC returns.

Usage: replay.py LIBRARY DIRECTORY VARIANT SEED...

Prints a JSON line for each seed: the results of the calls, and what libkiln-rtc said. VARIANT is A
or B. DIRECTORY/SEED is the directory of a case.
"""
import ctypes
import hashlib
import json
import os
import sys
import tempfile

import generated

BUFFER_SIZE = 1 << 16
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def texts(values):
    """Returns an array for C, or NULL if there is no value."""
    return (ctypes.c_char_p * len(values))(*(v.encode() for v in values)) if values else None


class Program:
    """Makes the calls of one variant."""

    def __init__(self, library, variant, directory):
        self.library = library
        self.variant = variant
        self.handle = ctypes.c_void_p()
        self.directory = directory
        self.callbacks = []

    def full(self, text):
        return text.replace("@", self.directory)

    def call(self, text):
        """Makes one call, and returns its results."""
        verb, _, what = text.partition(" ")
        return getattr(self, "do_" + verb)(what)

    def do_create(self, what):
        v = self.variant
        source = None if what == "nothing" else v.source.encode()
        name = None if v.name is None else self.full(v.name).encode()
        return [self.library.nvrtcCreateProgram(
            ctypes.byref(self.handle), source, name, len(v.headers),
            texts(list(v.headers.values())), texts(list(v.headers)))]

    def do_destroy(self, _):
        rc = self.library.nvrtcDestroyProgram(ctypes.byref(self.handle))
        return [rc, self.handle.value is None]

    def expression(self, what):
        if what == "nothing":
            return None
        return (b"other" if what == "other" else self.variant.expressions[int(what)].encode())

    def do_add(self, what):
        return [self.library.nvrtcAddNameExpression(self.handle, self.expression(what))]

    def do_lowered(self, what):
        found = ctypes.c_char_p(b"unchanged")
        rc = self.library.nvrtcGetLoweredName(self.handle, self.expression(what),
                                              ctypes.byref(found))
        return [rc, found.value.decode() if found.value else None]

    def do_compile(self, what):
        options = [self.full(o) for o in self.variant.options]
        if what == "more":
            options.append("-DMORE=1")
        if what == "nothing":
            return [self.library.nvrtcCompileProgram(self.handle, -1, None)]
        return [self.library.nvrtcCompileProgram(self.handle, len(options), texts(options))]

    def do_size(self, what):
        if what == "nothing":
            return [self.library.nvrtcGetPTXSize(self.handle, None)]
        size = ctypes.c_size_t(77)
        return [getattr(self.library, f"nvrtcGet{what}Size")(self.handle, ctypes.byref(size)),
                size.value]

    def do_get(self, what):
        if what == "nothing":
            return [self.library.nvrtcGetPTX(self.handle, None)]
        _, size = self.do_size(what)
        buffer = ctypes.create_string_buffer(b"\xa5" * (size + BUFFER_SIZE), size + BUFFER_SIZE)
        rc = getattr(self.library, "nvrtcGet" + what)(self.handle, buffer)
        text = buffer.raw[:size].decode(errors="replace") if what == "ProgramLog" else ""
        if os.environ.get("REPLAY_SHOW") and size:
            sys.stdout.write(f"---- {what}\n{buffer.raw[:size].decode(errors='replace')}\n")
        return [rc, hashlib.sha1(buffer.raw).hexdigest(), text]

    def do_callback(self, what):
        self.callbacks.append(CALLBACK(lambda payload, unused: int(what)))
        return [self.library.nvrtcSetFlowCallback(self.handle, self.callbacks[-1], None)]

    def do_pch(self, _):
        return [self.library.nvrtcGetPCHCreateStatus(self.handle)]

    def do_version(self, _):
        major, minor = ctypes.c_int(), ctypes.c_int()
        return [self.library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), major.value,
                minor.value]


def replay(library, variant, directory, said):
    os.chdir(os.path.join(directory, variant.directory))
    for name, value in variant.environment.items():
        os.environ[name] = value
    p = Program(library, variant, directory)
    results = [[text, *p.call(text)] for text in variant.calls]
    for name in variant.environment:
        del os.environ[name]
    text = said.read().decode(errors="replace").splitlines()
    return {"results": results,
            "said": [line.rpartition(": ")[2] for line in text if line.startswith("libkiln-rtc: ")]}


def main(path, directory, chosen, *seeds):
    library = ctypes.CDLL(path)
    with tempfile.TemporaryFile() as errors, open(f"/proc/self/fd/{errors.fileno()}",
                                                  "rb") as said:
        os.dup2(errors.fileno(), 2)
        for seed in seeds:
            variant = generated.generate(int(seed))["AB".index(chosen)]
            result = replay(library, variant, os.path.join(directory, seed), said)
            print(json.dumps({"seed": int(seed), **result}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
