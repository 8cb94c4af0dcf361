# SPDX-License-Identifier: MIT
"""Files and sources that victims and attackers send."""
from __future__ import annotations

import bz2
import hashlib
import os
import pathlib
import sqlite3
from typing import Iterable, NamedTuple

import host as hosts
import wire

DEVICE = "gfx906_60"
MACROS = 40  # number of macros, each of which doubles the expansions of the source

CREATE = """CREATE TABLE `kern_db` (`id` INTEGER PRIMARY KEY ASC,`kernel_name` TEXT NOT NULL,
`kernel_args` TEXT NOT NULL,`kernel_blob` BLOB NOT NULL,`kernel_hash` TEXT NOT NULL,
`uncompressed_size` INT NOT NULL);
CREATE UNIQUE INDEX `idx_kern_db` ON kern_db(kernel_name, kernel_args);"""


class Row(NamedTuple):
    name: str
    args: str
    blob: bytes
    md5: str
    size: int  # unpacked size; 0 if |blob| is not packed


def plain_row(name: str, content: bytes) -> Row:
    return Row(name, "", content, hashlib.md5(content).hexdigest(), 0)


def packed_row(name: str, content: bytes) -> Row:
    return Row(name, "", bz2.compress(content, 9), hashlib.md5(content).hexdigest(), len(content))


class Bomb(NamedTuple):
    """Returns a blob of a few bytes that unpacks to |size| zeros."""
    blob: bytes
    md5: str
    size: int


def make_bomb(size: int) -> Bomb:
    packer, digest, left = bz2.BZ2Compressor(9), hashlib.md5(), size
    blob = b""
    while left:
        zeros = bytes(min(left, 1 << 20))
        blob += packer.compress(zeros)
        digest.update(zeros)
        left -= len(zeros)
    return Bomb(blob + packer.flush(), digest.hexdigest(), size)


def bomb_rows(bomb: Bomb, count: int) -> list[Row]:
    return [Row(f"bomb{i}.o", "", *bomb) for i in range(count)]


def write_cache(path: pathlib.Path, rows: Iterable[Row]) -> pathlib.Path:
    """Writes a MIOpen cache (docs/formats/kdb.md)."""
    database = sqlite3.connect(path)
    database.executescript(CREATE)
    database.executemany("INSERT INTO kern_db(kernel_name, kernel_args, kernel_blob, kernel_hash,"
                         " uncompressed_size) VALUES(?, ?, ?, ?, ?)", rows)
    database.commit()
    database.close()
    path.chmod(0o644)
    return path


def write_tiny_rows(path: pathlib.Path, count: int) -> pathlib.Path:
    """Writes a cache with the smallest possible rows: a wrong hash, and a blob of one byte."""
    database = sqlite3.connect(path)
    database.executescript(CREATE)
    database.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
        "INSERT INTO kern_db(kernel_name, kernel_args, kernel_blob, kernel_hash, "
        "uncompressed_size) SELECT i, '', x'00', '', 0 FROM n", (count,))
    database.commit()
    database.close()
    path.chmod(0o644)
    return path


def random_rows(count: int, size: int, prefix: str) -> list[Row]:
    return [plain_row(f"{prefix}{i}.o", os.urandom(size)) for i in range(count)]


def find_db(records: int) -> bytes:
    """Writes a FindDb. Its problems differ only in batch and spatial size, so each problem is a
    neighbour of all others."""
    lines = []
    for i in range(records):
        size, batch = 8 + i // 100, 1 + i % 100
        key = f"64-{size}-{size}-3x3-64-{size}-{size}-{batch}-1x1-1x1-1x1-0-NCHW-FP32-F"
        lines.append(f"{key}=miopenConvolutionFwdAlgoDirect:ConvDirectNaiveConvFwd,1.5,0,"
                     "miopenConvolutionFwdAlgoDirect,<unused>\n")
    return "".join(lines).encode()


PERF_NUMBERS = "spatial_dim in_channels in_h in_w in_d fil_h fil_w fil_d out_channels batchsize " \
    "pad_h pad_w pad_d conv_stride_h conv_stride_w conv_stride_d dilation_h dilation_w " \
    "dilation_d bias group_count".split()


def write_perf_db(path: pathlib.Path, problems: int) -> pathlib.Path:
    """Writes a PerfDb of MIOpen (docs/formats/tuning-db.md) whose problems have no solver."""
    database = sqlite3.connect(path)
    numbers = ", ".join(f"{name} INT" for name in PERF_NUMBERS)
    database.executescript(
        f"CREATE TABLE config(id INTEGER PRIMARY KEY, layout TEXT, data_type TEXT, direction TEXT, "
        f"{numbers}); CREATE TABLE perf_db(id INTEGER PRIMARY KEY, solver TEXT, config INTEGER, "
        "params TEXT);")
    zeros = ", 0" * (len(PERF_NUMBERS) - 1)
    database.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
        f"INSERT INTO config SELECT i, 'NCHW', 'FP32', 'F', i{zeros} FROM n", (problems,))
    database.commit()
    database.close()
    path.chmod(0o644)
    return path


class Sources:
    """Sources for the compilers of |host|: for fault_compiler if |made|, otherwise for real ones.
    """

    def __init__(self, host: hosts.Host, made: bool) -> None:
        self.made, self.target, self.toolchain = made, "opencl:test", ""
        if made:
            return
        names = hosts.toolchain_names(host)
        amd = [name for name in ("hiprtc", "clang") if name in names]
        self.toolchain = amd[0] if amd else "opencl" if "opencl" in names else ""
        self.target = "gfx90a" if amd else hosts.opencl_target(host)
        if not self.toolchain or not self.target:
            raise LookupError("no toolchain for gfx90a and no OpenCL device")

    def _kernel(self) -> str:
        if self.toolchain == "opencl":
            return "kernel void k(global float *y) { *y = N; }\n"
        return 'extern "C" __attribute__((global)) void k(float *y) { *y = N; }\n'

    def trivial(self, number: int) -> wire.Source:
        if self.made:
            return wire.Source(self.target, f"made kernel {number}", "k.cl")
        return wire.Source(self.target, self._kernel(), "k.cpp", f"-DN={number}", self.toolchain)

    def endless(self, number: int) -> wire.Source:
        """Returns a source that no compiler can finish: it has 2^40 expansions of an empty macro.
        """
        if self.made:
            return wire.Source(self.target, f"made kernel {number} without end", "k.cl")
        lines = ["#define A0"] + [f"#define A{i} A{i - 1} A{i - 1}" for i in range(1, MACROS + 1)]
        text = "\n".join(lines) + f"\nA{MACROS}\n" + self._kernel()
        return wire.Source(self.target, text, "k.cpp", f"-DN={number}", self.toolchain)

    def including(self, header: str, toolchain: str, target: str) -> wire.Source:
        return wire.Source(target, f'#include "{header}"\n', "k.cpp", "", toolchain)
