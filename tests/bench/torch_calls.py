#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures what kiln.torch costs the CPU for each call of a convolution (docs/pytorch.md).

Usage: PYTHONPATH=libclient/python tests/bench/torch_calls.py [REPEATS]

Needs PyTorch, but neither a GPU nor kilnd: kiln runs the convolutions of tensors on the CPU, with
kernels that do nothing. The launch is a call by ctypes of a C function that returns at once. So the
times contain the way from PyTorch into Python and back, the look-up, the memory of the result and
of a workspace, and the call of libkiln, but not libkiln's own launch.

For comparison, measures PyTorch's own convolution of the same, smallest sizes, which PyTorch
computes on the CPU, and a Python operator that only allocates the result. A time is the CPU time of
a call in the fastest of REPEATS (20) loops of 2000 calls.
"""
import ctypes
import sys
import time

import torch

from kiln import _run
from kiln.torch import _operators
from kiln.torch._choice import State

CALLS = 2000
F = torch.nn.functional


class NoGpu:
    """An accelerator that answers no request."""

    def ask(self, *rest):
        pass

    def recall(self, index, key):
        return None

    def load(self, index, plan):
        return make_run(64)

    def stream(self, index):
        return 7

    def is_capturing(self):
        return False


def make_run(workspace):
    run = _run.Run.__new__(_run.Run)
    run.workspace, run.solver = workspace, ""
    run._pointer = 0x1000
    # a function that ignores its arguments and returns 0
    run._launch = _run._Launch(("fegetexcept", ctypes.CDLL("libm.so.6")))
    return run


def shortest(call, repeats):
    """Returns microseconds."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.thread_time()
        for _ in range(CALLS):
            call()
        best = min(best, time.thread_time() - begin)
    return best / CALLS * 1e6


def main():
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    torch.set_num_threads(1)
    x, w, bias = torch.randn(1, 1, 1, 1), torch.randn(1, 1, 1, 1), torch.randn(1)
    dy = torch.randn(1, 1, 1, 1)
    backward = torch.ops.aten.convolution_backward.default

    def output():
        with torch.no_grad():
            return F.conv2d(x, w)

    def output_with_bias():
        with torch.no_grad():
            return F.conv2d(x, w, bias)

    def gradients():
        return backward(dy, x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1,
                        [True, True, False])

    calls = {"output": output, "output with bias": output_with_bias,
             "both gradients in one call": gradients}
    theirs = {name: shortest(call, repeats) for name, call in calls.items()}
    library = torch.library.Library("aten", "IMPL")
    library.impl("convolution", lambda x, *rest: torch.empty_strided(
        (1, 1, 1, 1), (1, 1, 1, 1), dtype=torch.float32, device=x.device), "CPU")
    floor = shortest(output, repeats)
    del library

    operators = _operators.Operators(NoGpu(), "CPU")
    operators.start()
    for call in calls.values():
        call()
    for choice in operators.choices.values():
        choice.settle("slower")
    left = {name: shortest(call, repeats) for name, call in calls.items()}
    for choice in operators.choices.values():
        choice._plan = "any"
        choice._load()
        choice.state = State.KILN
    for name, call in calls.items():
        print(f"{name}: {shortest(call, repeats):.2f} us with kiln, {theirs[name]:.2f} us by "
              f"PyTorch, computed; {left[name]:.2f} us if kiln.torch leaves the call to PyTorch")
    for choice in operators.choices.values():
        assert choice.kiln_calls >= CALLS and not operators.errors, choice.reason
    print(f"output by a Python operator that only makes the result: {floor:.2f} us")


if __name__ == "__main__":
    main()
