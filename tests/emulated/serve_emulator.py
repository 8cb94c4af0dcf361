#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the launches of tests/emulated/hip_runtime.c in tinygrad's emulator of AMD GPUs.

Usage: serve_emulator.py EMULATOR ARCH DIRECTORY

EMULATOR is a checkout of tinygrad; ARCH is gfx906, gfx908, gfx90a, gfx942, gfx1100 or gfx1201.
The socket and the device's memory are created in DIRECTORY. Serves one process after the other.
"""
import array
import ctypes
import mmap
import os
import socket
import struct
import sys
import traceback

MEMORY_AT = 0x200000000000
CODE_AT = 0x210000000000
LDS_AT = 0x220000000000
MEMORY_BYTES = 4 << 30
CODE_BYTES = 1 << 28
LDS_BYTES = (4 << 30) + (1 << 20)
MAP_FIXED_NOREPLACE, MAP_NORESERVE = 0x100000, 0x4000

# Instructions that write back or invalidate caches, which the emulator neither decodes nor has:
# RDNA 3's buffer_gl0_inv and buffer_gl1_inv, and RDNA 4's global_inv and global_wb with each scope.
# s_nop replaces each of their words.
CACHE_INSTRUCTIONS = (
    [struct.pack("<II", word, 0) for word in (0xE0AC0000, 0xE0B00000)] +
    [struct.pack("<III", word, scope << 18, 0) for word in (0xEE0AC07C, 0xEE0B007C)
     for scope in range(4)])
S_NOP = struct.pack("<I", 0xBF800000)

# Fields of the first word of a matrix instruction (MFMA).
MATRIX_PREFIX, MATRIX_OP, MATRIX_ACC = 0x1A7 << 23, 0x7F << 16, 1 << 15

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                      ctypes.c_long]


def map_at(address, size, flags, fd):
    got = libc.mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags | MAP_FIXED_NOREPLACE,
                    fd, 0)
    if got != address:
        sys.exit(f"serve_emulator: cannot map memory at {address:#x}")


def unpack_msgpack(data, at):
    """Returns (value, end) of the message at |at|. Supports the types that occur in the notes of
    code objects."""
    kind = data[at]
    at += 1
    if kind <= 0x7F:
        return kind, at
    if kind >= 0xE0:
        return kind - 256, at
    if kind in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[kind], at
    if 0xCC <= kind <= 0xCF or 0xD0 <= kind <= 0xD3:
        size = 1 << (kind & 3)
        return int.from_bytes(data[at:at + size], "big", signed=kind >= 0xD0), at + size
    if 0xA0 <= kind <= 0xBF or 0xD9 <= kind <= 0xDB:
        count, at = unpack_count(data, at, kind, 0xA0, 0x1F, 0xD9)
        return data[at:at + count].decode(), at + count
    if 0x90 <= kind <= 0x9F or kind in (0xDC, 0xDD):
        count, at = unpack_count(data, at, kind, 0x90, 0xF, 0xDB)
        items = []
        for _ in range(count):
            item, at = unpack_msgpack(data, at)
            items.append(item)
        return items, at
    if 0x80 <= kind <= 0x8F or kind in (0xDE, 0xDF):
        count, at = unpack_count(data, at, kind, 0x80, 0xF, 0xDD)
        items = {}
        for _ in range(count):
            key, at = unpack_msgpack(data, at)
            items[key], at = unpack_msgpack(data, at)
        return items, at
    raise ValueError(f"unknown type {kind:#x} in a note")


def unpack_count(data, at, kind, first, mask, base):
    """Returns the number of elements, which is in the low bits of |kind| or in 1 << (kind - base)
    bytes."""
    if first <= kind <= first | mask:
        return kind & mask, at
    size = 1 << (kind - base)
    return int.from_bytes(data[at:at + size], "big"), at + size


def without_cache_instructions(code):
    for instruction in CACHE_INSTRUCTIONS:
        code = code.replace(instruction, S_NOP * (len(instruction) // 4))
    return code


def as_cdna3(code, target):
    """Returns code for |target| with CDNA 3's encoding of matrix instructions, which the emulator
    decodes for all of gfx9.

    gfx90a's v_mfma_f32_16x16x16bf16_1k has another opcode there.  On gfx908, the sums are always
    in accumulation registers; later, a bit says so.
    """
    whole = len(code) // 4 * 4
    words = array.array("I", code[:whole])
    for i, word in enumerate(words):
        if word & 0xFF800000 != MATRIX_PREFIX or target not in ("gfx908", "gfx90a"):
            continue
        op = (word & MATRIX_OP) >> 16
        if target == "gfx90a" and op == 0x67:
            words[i] = word & ~MATRIX_OP | 0x61 << 16
        elif target == "gfx908" and op in range(0x40, 0x58):
            words[i] = word | MATRIX_ACC
    return words.tobytes() + code[whole:]


class Module:
    """A code object for |target| that is loaded at |base|."""

    def __init__(self, image, base, target):
        self.base, self.symbols, self.arguments = base, {}, {}
        (headers, sections), (size, count, section_size, section_count) = (
            struct.unpack_from("<QQ", image, 32), struct.unpack_from("<HHHH", image, 54))
        self.end = base
        for i in range(count):
            header = struct.unpack_from("<IIQQQQQQ", image, headers + i * size)
            kind, flags, offset, address, _, stored, loaded, _ = header
            if kind == 1:
                part = image[offset:offset + stored]
                if flags & 1:
                    part = as_cdna3(without_cache_instructions(part), target)
                ctypes.memset(base + address, 0, loaded)
                ctypes.memmove(base + address, part, stored)
                self.end = max(self.end, base + address + loaded)
            elif kind == 4:
                self.read_notes(image, offset, stored)
        table = [struct.unpack_from("<IIQQQQIIQQ", image, sections + i * section_size)
                 for i in range(section_count)]
        for _, kind, _, _, offset, length, link, _, _, entry in table:
            if kind == 11:
                self.read_symbols(image, offset, length // entry, table[link][4])
            elif kind == 4 and length:
                raise ValueError("the code object has relocations")

    def read_notes(self, image, at, size):
        name, length, kind = struct.unpack_from("<III", image, at)
        if kind != 32 or size < length:
            return
        notes, _ = unpack_msgpack(image, at + 12 + (name + 3) // 4 * 4)
        for kernel in notes["amdhsa.kernels"]:
            shown = [a for a in kernel.get(".args", [])
                     if not a[".value_kind"].startswith("hidden")]
            self.arguments[kernel[".name"]] = [(a[".offset"], a[".size"]) for a in shown]

    def read_symbols(self, image, at, count, names):
        for i in range(count):
            name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", image, at + i * 24)
            text = image[names + name:image.index(b"\0", names + name)].decode()
            self.symbols[text] = self.base + value


def user_data(properties, arguments):
    """Returns the registers that a kernel descriptor's code properties request, in the ABI's order.
    """
    words = []
    for bit, count in enumerate((4, 2, 2, 2, 2, 2, 1)):
        if properties >> bit & 1:
            words += [arguments & 0xFFFFFFFF, arguments >> 32] if bit == 3 else [0] * count
    return words


class Server:
    """The state of one client."""

    def __init__(self, run_asm, arch, target):
        self.run_asm, self.arch, self.target = run_asm, arch, target
        self.modules, self.functions, self.code_end = [], [], CODE_AT

    def load(self, address, size):
        module = Module(ctypes.string_at(int(address), int(size)), self.code_end,
                        self.target)
        self.code_end = (module.end + 4095) // 4096 * 4096 + 4096
        self.modules.append(module)
        return len(self.modules) - 1

    def function(self, module, name):
        module = self.modules[int(module)]
        self.functions.append((module, module.symbols[name + ".kd"], module.arguments[name]))
        sizes = [size for _, size in module.arguments[name]]
        return " ".join(str(i) for i in [len(self.functions) - 1] + sizes)

    def launch(self, function, gx, gy, gz, bx, by, bz, shared, *values):
        module, descriptor, arguments = self.functions[int(function)]
        fixed, private, _ = struct.unpack("<III", ctypes.string_at(descriptor, 12))
        entry, = struct.unpack("<q", ctypes.string_at(descriptor + 16, 8))
        _, rsrc2, properties = struct.unpack("<IIH", ctypes.string_at(descriptor + 48, 10))
        lds = (fixed + int(shared) + 511) // 512
        rsrc2 = rsrc2 & ~(0x1FF << 15) | lds << 15
        block = ctypes.create_string_buffer(4096)
        for (offset, size), value in zip(arguments, values):
            block[offset:offset + size] = int(value).to_bytes(8, "little")[:size]
        at = ctypes.addressof(block)
        code = descriptor + entry
        if self.run_asm(code, module.end - code, int(gx), int(gy), int(gz), int(bx), int(by),
                        int(bz), at, rsrc2,
                        private, self.arch, user_data(properties, at)):
            raise RuntimeError("the emulator failed")
        return ""


def widen_lds(emulator):
    """Moves LDS to LDS_AT, where any 32-bit offset is readable.

    This is needed because the emulator also reads at the addresses of inactive lanes, which may be
    anything.  The emulator makes LDS right after its view of the memory, which begins at 0.
    """
    make = emulator.Buffer
    made_view = False

    def make_buffer(device, size, dtype, options=None):
        nonlocal made_view
        is_lds, made_view = made_view, options is not None and options.external_ptr == 0
        if is_lds:
            options = emulator.BufferSpec(external_ptr=LDS_AT)
        return make(device, size, dtype, options=options)

    emulator.Buffer = make_buffer


def serve(connection, server):
    lines = connection.makefile("rw")
    for line in lines:
        command, *words = line.split()
        try:
            answer = f"ok {getattr(server, command)(*words)}"
        except Exception as error:  # any exception of the emulator is the answer to this request
            traceback.print_exc()
            answer = f"no {command}: {type(error).__name__}: {error}".replace("\n", " ")[:4000]
        lines.write(answer + "\n")
        lines.flush()


def main():
    emulator, target, directory = sys.argv[1:]
    sys.path.insert(0, emulator)
    from test.mockgpu.amd import emu
    widen_lds(emu)
    arches = {"gfx9": "cdna", "gfx12": "rdna4"}
    arch = next((arches[start] for start in arches if target.startswith(start)), "rdna3")
    memory = os.open(os.path.join(directory, "memory"), os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(memory, MEMORY_BYTES)
    map_at(MEMORY_AT, MEMORY_BYTES, mmap.MAP_SHARED, memory)
    map_at(CODE_AT, CODE_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
    map_at(LDS_AT, LDS_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE, -1)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.path.join(directory, "socket"))
    listener.listen()
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        serve(connection, Server(emu.run_asm, arch, target))
        connection.close()


if __name__ == "__main__":
    main()
