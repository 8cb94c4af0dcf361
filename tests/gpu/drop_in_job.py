#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times the first use of kernels in CuPy or PyTorch. tests/gpu/drop_in.py runs it.

Usage: tests/gpu/drop_in_job.py [--ready FILE --start FILE] cupy|torch

Imports the package and makes the GPU's context. With --ready, then creates that FILE and waits
until the other one exists, so that several processes begin together. Then calls each function once
and prints JSON: the seconds that the calls took together, and the SHA-256 of each result.
"""
import argparse
import hashlib
import json
import pathlib
import sys
import time

import numpy

WAIT_MAX_S = 300

RAW = """
extern "C" __global__ void saxpy(float a, const float *x, const float *y, float *z) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    z[i] = a * x[i] + y[i];
}"""

TEMPLATE = """
template <typename T> __global__ void scale(T *to, const float *from) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = T(2) * T(from[i]);
}"""


def wait_for(path):
    for _ in range(WAIT_MAX_S * 100):
        if path.exists():
            return
        time.sleep(0.01)
    sys.exit(f"waited {WAIT_MAX_S} s for {path}")


class Inputs:
    """Arrays of the same contents in every process."""

    def __init__(self, array):
        random = numpy.random.default_rng(1)
        plain = random.random(4096, dtype=numpy.float32)
        self.x = array(plain)
        self.y = array(plain[::-1].copy() + 0.5)
        self.d = array(plain.astype(numpy.float64))
        self.h = array(plain.astype(numpy.float16))
        self.i = array(random.integers(1, 100, 4096, dtype=numpy.int32))
        self.j = array(random.integers(1, 9, 4096, dtype=numpy.int32))
        self.m = array(plain.reshape(64, 64))
        self.b = array(plain > 0.5)
        self.c = array((plain + 1j * plain[::-1]).astype(numpy.complex64))


# ---- CuPy ----

def cupy_elementwise(cp, a):
    return {
        "add": lambda: a.x + a.y,
        "subtract": lambda: a.x - a.y,
        "multiply": lambda: a.x * a.y,
        "divide": lambda: a.x / a.y,
        "power": lambda: a.x ** a.y,
        "sqrt": lambda: cp.sqrt(a.x),
        "exp": lambda: cp.exp(a.x),
        "log": lambda: cp.log(a.y),
        "sin": lambda: cp.sin(a.x),
        "tanh": lambda: cp.tanh(a.x),
        "arctan2": lambda: cp.arctan2(a.x, a.y),
        "hypot": lambda: cp.hypot(a.x, a.y),
        "maximum": lambda: cp.maximum(a.x, a.y),
        "clip": lambda: cp.clip(a.x, 0.2, 0.8),
        "absolute": lambda: cp.absolute(a.c),
        "floor": lambda: cp.floor(a.y),
        "sign": lambda: cp.sign(a.x),
        "isnan": lambda: cp.isnan(a.x),
        "logical_and": lambda: cp.logical_and(a.b, a.b),
        "bitwise_xor": lambda: a.i ^ a.j,
        "left_shift": lambda: a.i << a.j,
        "remainder": lambda: a.i % a.j,
        "floor_divide": lambda: a.i // a.j,
        "where": lambda: cp.where(a.b, a.x, a.y),
        "complex product": lambda: a.c * a.c,
        "to half": lambda: a.x.astype(cp.float16),
        "to double": lambda: a.h.astype(cp.float64),
        "double product": lambda: a.d * a.d,
        "in place": lambda: cp.add(a.d, 1.0),
    }


def cupy_reductions(cp, a):
    return {
        "sum": lambda: a.x.sum(),
        "sum of an axis": lambda: a.m.sum(axis=0),
        "prod": lambda: a.y.prod(),
        "max": lambda: a.x.max(),
        "argmax": lambda: a.x.argmax(),
        "mean": lambda: a.m.mean(axis=1),
        "var": lambda: a.x.var(),
        "any": lambda: a.b.any(),
        "count_nonzero": lambda: cp.count_nonzero(a.b),
        "nansum": lambda: cp.nansum(a.x),
        "cumsum": lambda: cp.cumsum(a.x),
        "norm": lambda: cp.linalg.norm(a.m, axis=1),
    }


def cupy_arrays(cp, a):
    return {
        "arange": lambda: cp.arange(4096, dtype=cp.float32),
        "linspace": lambda: cp.linspace(0, 1, 4096),
        "full": lambda: cp.full(4096, 3, dtype=cp.int16),
        "eye": lambda: cp.eye(64),
        "tril": lambda: cp.tril(a.m),
        "take": lambda: cp.take(a.x, a.i),
        "mask": lambda: a.x[a.b],
        "concatenate": lambda: cp.concatenate([a.x, a.y]),
        "transpose": lambda: cp.ascontiguousarray(a.m.T),
        "sort": lambda: cp.sort(a.x),
        "searchsorted": lambda: cp.searchsorted(cp.sort(a.x), a.y),
        "bincount": lambda: cp.bincount(a.i),
        "unique": lambda: cp.unique(a.i),
        "integer product": lambda: cp.matmul(a.i.reshape(64, 64), a.j.reshape(64, 64)),
    }


def cupy_own_kernels(cp, a):
    from cupyx.scipy import special  # pylint: disable=import-outside-toplevel

    @cp.fuse()
    def length(x, y):
        return cp.sqrt(x * x + y * y)

    def raw():
        to = cp.empty_like(a.x)
        cp.RawKernel(RAW, "saxpy")((16,), (256,), (cp.float32(2), a.x, a.y, to))
        return to

    def template():
        to = cp.empty_like(a.d)
        module = cp.RawModule(code=TEMPLATE, options=("-std=c++17",),
                              name_expressions=("scale<double>", "scale<float>"))
        module.get_function("scale<double>")((16,), (256,), (to, a.x))
        return to

    return {
        "ElementwiseKernel": lambda: cp.ElementwiseKernel(
            "T x, T y", "T z", "z = x * x - y", "of_job")(a.x, a.y),
        "ReductionKernel": lambda: cp.ReductionKernel(
            "T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm_of_job")(a.x),
        "RawKernel": raw,
        "RawModule": template,
        "fuse": lambda: length(a.x, a.y),
        "erf": lambda: special.erf(a.x),
        "gamma": lambda: special.gamma(a.y),
    }


def cupy_functions():
    import cupy as cp  # pylint: disable=import-outside-toplevel
    a = Inputs(cp.asarray)
    cp.cuda.get_current_stream().synchronize()
    functions = {}
    for make in cupy_elementwise, cupy_reductions, cupy_arrays, cupy_own_kernels:
        functions |= make(cp, a)
    return f"CuPy {cp.__version__}", functions, cp.asnumpy


# ---- PyTorch ----

BESSEL = ("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_i0",
          "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1",
          "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0")
POLYNOMIALS = ("chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
               "chebyshev_polynomial_w", "hermite_polynomial_h")


def torch_functions():
    import torch  # pylint: disable=import-outside-toplevel
    a = Inputs(lambda array: torch.from_numpy(array).cuda())
    torch.cuda.synchronize()
    kernels = {
        "square": "template <typename T> T square(T x) { return x * x + T(1); }",
        "gelu": "template <typename T> T gelu(T x) { return x / (T(1) + exp(T(-1.7) * x)); }",
        "mix": "template <typename T> T mix(T x, T y, T by) { return x * by + y * (T(1) - by); }",
    }
    create = torch.cuda.jiterator._create_jit_fn  # pylint: disable=protected-access
    functions = {n: lambda n=n: getattr(torch.special, n)(a.x) for n in BESSEL}
    functions |= {n: lambda n=n: getattr(torch.special, n)(a.x, a.j) for n in POLYNOMIALS}
    functions["square"] = lambda: create(kernels["square"])(a.x)
    functions["gelu"] = lambda: create(kernels["gelu"])(a.x)
    functions["mix"] = lambda: create(kernels["mix"], by=0.25)(a.x, a.y)
    return f"PyTorch {torch.__version__}", functions, lambda result: result.cpu().numpy()


# ---- the measurement ----

def measure(functions, to_numpy):
    digests, failed, each = {}, {}, {}
    cpu_began = time.process_time()
    for name, function in functions.items():
        began = time.perf_counter()
        try:
            digests[name] = hashlib.sha256(to_numpy(function()).tobytes()).hexdigest()
        except Exception as error:  # pylint: disable=broad-except # named in the output
            failed[name] = repr(error)[:300]
        each[name] = round(time.perf_counter() - began, 4)
    return {"seconds": round(sum(each.values()), 4), "digests": digests, "failed": failed,
            "cpu_seconds": round(time.process_time() - cpu_began, 4), "each": each}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ready", type=pathlib.Path)
    parser.add_argument("--start", type=pathlib.Path)
    parser.add_argument("program", choices=("cupy", "torch"))
    options = parser.parse_args()
    began = time.perf_counter()
    version, functions, to_numpy = (cupy_functions if options.program == "cupy"
                                    else torch_functions)()
    start = {"version": version, "start_seconds": round(time.perf_counter() - began, 2)}
    if options.ready:
        options.ready.touch()
        wait_for(options.start)
    print(json.dumps(start | measure(functions, to_numpy)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
