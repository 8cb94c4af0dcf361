#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures what kiln.torch costs the CPU for each call of a convolution (docs/pytorch.md).

Usage: PYTHONPATH=libclient/python tests/bench/torch_calls.py [REPEATS]

Needs PyTorch, but neither a GPU nor kilnd: kiln runs the convolutions of tensors on the CPU, with
kernels that do nothing. The launch is a C function that returns at once. So the times contain the
way from PyTorch to kiln.torch and back, the look-up, the memory of the result and of a workspace,
and the call of libkiln, but not libkiln's own launch. The operators in C are measured where they
can be used (KILN_TORCH_OPERATOR=c: with any version of PyTorch).

For comparison, measures PyTorch's own convolution of the same, smallest sizes, which PyTorch
computes on the CPU. All ways take turns. A time is the CPU time of a call in the fastest of REPEATS
(20) loops of 2000 calls.
"""
import contextlib
import ctypes
import sys
import time

import torch

from kiln import _run
from kiln.torch import _native, _operators
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

    def on_device(self, index):
        return contextlib.nullcontext()


def nothing():
    """Returns a C function that ignores its arguments and returns 0."""
    return ("fegetexcept", ctypes.CDLL("libm.so.6"))


def make_run(workspace):
    run = _run.Run.__new__(_run.Run)
    run.workspace, run.solver = workspace, ""
    run.pointer = 0x1000
    run._launch = _run._Launch(nothing())
    return run


def shortest(call, repeats=1):
    """Returns microseconds."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.thread_time()
        for _ in range(CALLS):
            call()
        best = min(best, time.thread_time() - begin)
    return best / CALLS * 1e6


def make_calls():
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

    return {"output": output, "output with bias": output_with_bias, "both gradients": gradients}


def make_operators(native, calls, by_kiln):
    """Returns operators whose choices are made."""
    operators = _operators.Operators(NoGpu(), "CPU", native)
    operators.start()
    for call in calls.values():
        call()
    for choice in operators.choices.values():
        if by_kiln:
            choice._plan = "any"
            choice._load()
            choice.state = State.KILN
        else:
            choice.settle("slower")
    operators.stop()
    return operators


def make_ways(calls):
    """Returns each way to run the calls, by its name."""
    ways = {"PyTorch": None}
    for language in ("Python", "C"):
        for by_kiln in (True, False):
            native = None
            if language == "C":
                address = ctypes.cast(_run._Launch(nothing()), ctypes.c_void_p).value
                try:
                    native = _native.Native("CPU", _operators.OPERATORS,
                                            lambda: (address, address))
                except _native.Unavailable as error:
                    print(f"no operators in C: {error}")
                    return ways
            name = f"kiln, {language}" if by_kiln else f"left to PyTorch, {language}"
            ways[name] = make_operators(native, calls, by_kiln)
    return ways


def main():
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    torch.set_num_threads(1)
    calls = make_calls()
    ways = make_ways(calls)
    best = {}
    for _ in range(repeats):
        for way, operators in ways.items():
            if operators is not None:
                operators.start()
            for name, call in calls.items():
                best[way, name] = min(shortest(call), best.get((way, name), float("inf")))
            if operators is not None:
                operators.stop()
                assert not operators.errors, operators.errors
    for way in ways:
        print(f"{way:26}" + "".join(f"{best[way, name]:8.2f} us {name} " for name in calls))
    for way, operators in ways.items():
        if operators is not None:
            for choice in operators.choices.values():
                count = choice.kiln_calls if way.startswith("kiln") else choice.original_calls
                assert count >= repeats * CALLS, (way, choice.reason)


if __name__ == "__main__":
    main()
