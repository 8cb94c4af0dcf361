# SPDX-License-Identifier: MIT
"""Tests the server behind the emulated HIP runtime, with an emulator that only records its calls,
and the table of the results."""
import ctypes
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

DIRECTORY = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(DIRECTORY))

import result_table  # noqa: E402
import serve_emulator  # noqa: E402

KERNARG = 1 << 3
DISPATCH_PTR = 1 << 1


class Notes(unittest.TestCase):
    def check(self, data, value):
        self.assertEqual(serve_emulator.unpack_msgpack(data, 0), (value, len(data)))

    def test_reads_every_type_of_a_note(self):
        self.check(b"\x05", 5)
        self.check(b"\xff", -1)
        self.check(b"\xc0", None)
        self.check(b"\xc3", True)
        self.check(b"\xcd\x01\x02", 0x102)
        self.check(b"\xd1\xff\xfe", -2)
        self.check(b"\xa2ab", "ab")
        self.check(b"\xd9\x03abc", "abc")
        self.check(b"\x92\x01\x02", [1, 2])
        self.check(b"\xdc\x00\x01\x07", [7])
        self.check(b"\x81\xa1a\x93\x01\xc2\xa0", {"a": [1, False, ""]})
        self.check(b"\xde\x00\x01\xa1b\x08", {"b": 8})

    def test_rejects_a_type_that_notes_do_not_have(self):
        with self.assertRaises(ValueError):
            serve_emulator.unpack_msgpack(b"\xc1", 0)


class Code(unittest.TestCase):
    def code(self, *words):
        return struct.pack(f"<{len(words)}I", *words)

    def test_cache_instructions_become_nops(self):
        nop = 0xBF800000
        self.assertEqual(
            serve_emulator.without_cache_instructions(
                self.code(0xBFBD0000, 0xE0AC0000, 0, 0xBFB00000)),
            self.code(0xBFBD0000, nop, nop, 0xBFB00000))
        for word in (0xEE0AC07C, 0xEE0B007C):  # global_inv and global_wb scope:SCOPE_DEV
            self.assertEqual(
                serve_emulator.without_cache_instructions(self.code(word, 2 << 18, 0, 0xBFB00000)),
                self.code(nop, nop, nop, 0xBFB00000))

    def test_matrix_instructions_are_encoded_as_in_cdna3(self):
        bf16, fp16, addition = (0xD3E78000, 0x04020500), (0xD3CD0000, 0x04020500), 0x02020300
        code = self.code(*bf16, *fp16, addition) + b"\0\0"
        self.assertEqual(serve_emulator.as_cdna3(code, "gfx90a"),
                         self.code(0xD3E18000, bf16[1], *fp16, addition) + b"\0\0")
        self.assertEqual(serve_emulator.as_cdna3(code, "gfx908"),
                         self.code(*bf16, 0xD3CD8000, fp16[1], addition) + b"\0\0")
        self.assertEqual(serve_emulator.as_cdna3(code, "gfx942"), code)


class Registers(unittest.TestCase):
    def test_the_arguments_address_comes_after_the_registers_before_it(self):
        address = 0x123456789ABC
        words = [0x56789ABC, 0x1234]
        self.assertEqual(serve_emulator.user_data(KERNARG, address), words)
        self.assertEqual(serve_emulator.user_data(KERNARG | DISPATCH_PTR | 1, address),
                         [0] * 6 + words)
        self.assertEqual(serve_emulator.user_data(KERNARG | 1 << 6, address), words + [0])


class Module:
    """A loaded kernel with two arguments: an address and a number."""

    def __init__(self):
        self.descriptor = ctypes.create_string_buffer(
            struct.pack("<III", 1000, 16, 12) + bytes(4) + struct.pack("<q", 256) + bytes(24) +
            struct.pack("<IIH", 0, 0x9C, KERNARG) + bytes(6))
        self.at = ctypes.addressof(self.descriptor)
        self.symbols, self.arguments = {"scale.kd": self.at}, {"scale": [(0, 8), (8, 4)]}
        self.end = self.at + 4096


class Launches(unittest.TestCase):
    def run_asm(self, *arguments):
        self.seen = arguments
        self.block = ctypes.string_at(arguments[8], 16)
        return self.result

    def setUp(self):
        self.result = 0
        self.server = serve_emulator.Server(self.run_asm, "cdna", "gfx906")
        self.module = Module()
        self.server.modules.append(self.module)

    def test_a_launch_passes_the_descriptor_and_the_arguments(self):
        self.assertEqual(self.server.function("0", "scale"), "0 8 4")
        self.assertEqual(self.server.launch(*"0 3 1 1 64 1 1 24 4660 4294967295".split()), "")
        self.assertEqual(self.block, struct.pack("<QII", 4660, 0xFFFFFFFF, 0))
        self.assertEqual(self.seen[0], self.module.at + 256)
        self.assertEqual(self.seen[2:8], (3, 1, 1, 64, 1, 1))
        lds = 1000 + 24  # fixed plus dynamic size: two blocks of 512 bytes
        self.assertEqual(self.seen[9] >> 15 & 0x1FF, lds // 512)
        self.assertEqual(self.seen[9] & 0x7FFF, 0x9C)
        self.assertEqual(self.seen[10:12], (16, "cdna"))

    def test_a_failure_of_the_emulator_is_an_error(self):
        self.result = 1
        self.server.function("0", "scale")
        with self.assertRaises(RuntimeError):
            self.server.launch(*"0 1 1 1 64 1 1 0 0 0".split())


class Table(unittest.TestCase):
    def setUp(self):
        cases = [("gfx90a", "fp32", "F", "wrong"), ("gfx90a", "fp32", "F", "ok"),
                 ("gfx90a", "fp32", "W", "-"), ("gfx1100", "fp32", "F", "ok"),
                 ("gfx1100", "bf16", "B", "no decoder"), ("gfx1100", "bf16", "W", "wrong")]
        self.rows = result_table.read_cases(
            f"{target}\tConvA\t3×3\t{kind}\tNCHW\t{direction}\t{result}\n"
            for target, kind, direction, result in cases)

    def test_a_cell_counts_the_right_results(self):
        self.assertEqual(result_table.table(self.rows), [
            "| solver | problem | directions | types | layouts | gfx90a | gfx1100 |",
            "| --- | --- | --- | --- | --- | --- | --- |",
            "| ConvA | 3×3 | F, B, W | fp32, bf16 | NCHW | 1 of 1 | 1 of 3 |",
        ])

    def test_failures_are_grouped_by_solver_target_and_type(self):
        self.assertEqual(result_table.failures(self.rows),
                         ["- ConvA, gfx1100, bf16: 2 cases, such as `no decoder`"])


class Script(unittest.TestCase):
    def test_a_table_of_a_truncated_file_fails_with_its_line(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("gfx90a\tConvA\t3x3\tfp32\tNCHW\tF\tok\ngfx90a\tConvA\t3x3\tfp32\tNC")
            file.flush()
            result = subprocess.run([sys.executable, result_table.__file__, file.name],
                                    capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 1)
        self.assertNotIn("Traceback", result.stderr)
        self.assertIn(f"cannot read '{file.name}': line 2", result.stderr)

    def test_needs_a_checkout_of_the_emulator(self):
        script = DIRECTORY.parents[1] / "scripts" / "test-emulated"
        result = subprocess.run([script, "--emulator", "/nonexistent"], capture_output=True,
                                text=True, timeout=60)
        self.assertEqual(result.returncode, 2)
        self.assertIn("Usage", result.stderr)


if __name__ == "__main__":
    unittest.main()
