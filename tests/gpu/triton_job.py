#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times the first use of kernels in Triton, which starts ptxas. tests/gpu/drop_in.py runs it.

Usage: tests/gpu/triton_job.py triton

Compiles and runs 19 kernels, 18 products of matrices and a softmax. Prints JSON: the seconds that
the compiles took together, the seconds and number of ptxas' runs among them, and the SHA-256 of
each cubin and each result. If TRITON_PTXAS_PATH is kiln-ptxas, kiln-ptxas starts Triton's ptxas.

Exit status: 77 Triton, PyTorch or a GPU is not there.
"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

SIZE = 256
BLOCKS = ((32, 32), (64, 32), (64, 64))
DEPTHS = (16, 32, 64)

began = time.perf_counter()
try:
    import torch
    import triton
    import triton.language as tl
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)


@triton.jit
def product(a, b, c, SIZE: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    sums = tl.zeros((M, N), dtype=tl.float32)
    for begin in range(0, SIZE, K):
        k = begin + tl.arange(0, K)
        left = tl.load(a + rows[:, None] * SIZE + k[None, :])
        right = tl.load(b + k[:, None] * SIZE + columns[None, :])
        sums += tl.dot(left, right)
    tl.store(c + rows[:, None] * SIZE + columns[None, :], sums)


@triton.jit
def softmax(x, y, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    values = tl.load(x + at)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + at, powers / tl.sum(powers, axis=0))


class Ptxas:
    """Counts the compiles by ptxas, and their seconds."""

    def __init__(self):
        self.runs, self.seconds = 0, 0.0
        self.original = subprocess.run
        subprocess.run = self.run

    def run(self, command, *arguments, **options):
        start = time.perf_counter()
        try:
            return self.original(command, *arguments, **options)
        finally:
            if "ptxas" in str(command[0]) and "--version" not in command:
                self.runs += 1
                self.seconds += time.perf_counter() - start


def launches():
    """Returns a function for each kernel. It returns the compiled kernel and the result."""
    random = torch.Generator().manual_seed(1)
    a, b = (torch.rand((SIZE, SIZE), generator=random) for _ in range(2))

    def multiply(dtype, m, n, k):
        result = torch.empty((SIZE, SIZE), device="cuda")
        left, right = a.to("cuda", dtype), b.to("cuda", dtype)
        return product[(SIZE // m, SIZE // n)](left, right, result, SIZE, m, n, k), result

    def normalize():
        result = torch.empty((SIZE, SIZE), device="cuda")
        return softmax[(SIZE,)](a.cuda(), result, SIZE), result

    made = {f"{dtype} {m} {n} {k}": lambda given=(dtype, m, n, k): multiply(*given)
            for dtype in (torch.float16, torch.float32) for m, n in BLOCKS for k in DEPTHS}
    return made | {"softmax": normalize}


def measure(functions):
    digests, failed, seconds = {}, {}, 0.0
    for name, function in functions.items():
        start = time.perf_counter()
        try:
            kernel, result = function()
            torch.cuda.synchronize()
            seconds += time.perf_counter() - start
            digests[name] = hashlib.sha256(result.cpu().numpy().tobytes()).hexdigest()
            digests[name + ", cubin"] = hashlib.sha256(kernel.asm["cubin"]).hexdigest()
        except Exception as error:  # pylint: disable=broad-except # named in the output
            failed[name] = repr(error)[:300]
    return {"seconds": round(seconds, 4), "digests": digests, "failed": failed}


def main():
    if not torch.cuda.is_available():
        print("skipped: there is no GPU", file=sys.stderr)
        return 77
    if "TRITON_PTXAS_PATH" in os.environ:
        own = pathlib.Path(triton.__file__).parent / "backends/nvidia/bin/ptxas"
        os.environ["KILN_PTXAS"] = str(own)
    torch.zeros(1, device="cuda")
    version = f"Triton {triton.__version__}"
    start = round(time.perf_counter() - began, 2)
    ptxas, cpu_began = Ptxas(), time.process_time()
    made = measure(launches())
    print(json.dumps(made | {
        "version": version, "start_seconds": start, "ptxas_runs": ptxas.runs,
        "cpu_seconds": round(time.process_time() - cpu_began, 4),
        "ptxas_seconds": round(ptxas.seconds, 4)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
