#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs PyTorch's own samples of its convolution functions with and without kiln.torch.

Usage: KILN_BUILD=build/release KILN_LIBRARY_PATH=build/release/lib PYTHONPATH=libclient/python \\
           tests/python/torch_samples.py

Fails if results, strides, gradients or errors differ. Needs PyTorch with its test support
(torch.testing._internal), but neither a GPU nor kilnd: a fake accelerator computes on the CPU. Each
sample is called five times, once with kiln at every choice that it can do, and once with PyTorch at
every choice. Takes about a minute.
"""
import sys

import torch
from torch.testing._internal.common_methods_invocations import op_db

import test_torch
from kiln.torch import _choice

CALLS = 5
TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64)
TOLERANCES = {torch.bfloat16: 2e-2, torch.float16: 2e-2}


def samples_of(function, dtype):
    has_gradient = dtype in function.supported_backward_dtypes("cpu")
    for make in (function.sample_inputs, function.reference_inputs):
        yield from make("cpu", dtype, requires_grad=has_gradient)
    if dtype is torch.float32 and function.error_inputs_func:
        yield from (error.sample_input for error in function.error_inputs("cpu"))


def run(function, sample):
    """Returns the result and its strides, and the gradients; or the error."""
    leaves = [t for t in (sample.input, *sample.args)
              if isinstance(t, torch.Tensor) and t.requires_grad]
    for leaf in leaves:
        leaf.grad = None
    try:
        made = function(sample.input, *sample.args, **sample.kwargs)
        if made.requires_grad:
            torch.manual_seed(0)
            made.backward(torch.randn_like(made))
    except Exception as error:
        return [type(error), str(error)]
    return [made.detach(), made.stride(), *(leaf.grad for leaf in leaves)]


def is_same(one, other):
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return type(one) is type(other) and one == other
    limit = TOLERANCES.get(one.dtype, 1e-4)
    return torch.allclose(one, other, rtol=limit, atol=limit, equal_nan=True)


def differs(fake, function, sample):
    wanted = run(function, sample)
    fake.operators.start()
    try:
        for _ in range(CALLS):
            made = run(function, sample)
            fake.answer()
            if len(made) != len(wanted) or not all(map(is_same, made, wanted)):
                return True
    finally:
        fake.operators.stop()
    return False


def run_all(language, kiln_us):
    fake = test_torch.FakeAccelerator()
    fake.kiln_us = kiln_us
    fake.operators._native = test_torch.make_native(fake) if language == "C" else None
    count = failed = 0
    for function in op_db:
        for dtype in TYPES if function.name.startswith("nn.functional.conv") else ():
            if dtype not in function.supported_dtypes("cpu"):
                continue
            for sample in samples_of(function, dtype):
                count += 1
                if differs(fake, function, sample):
                    failed += 1
                    print(f"{function.name} {dtype} {sample.summary()}")
    choices = fake.operators.choices.values()
    in_c = [c.native.counts() for c in choices if c.native]
    print(f"operators in {language}, kernels of {kiln_us} us: {failed} of {count} samples differ; "
          f"{sum(c.kiln_calls for c in choices)} calls by kiln ({sum(n for n, _ in in_c)} in C), "
          f"{sum(c.original_calls for c in choices)} by PyTorch ({sum(n for _, n in in_c)} in C)")
    return failed + len(fake.operators.errors)


def main():
    torch.set_num_threads(1)
    _choice.names_of_plan = lambda plan: ("FakeSolver", "1", "code")
    failed = sum(run_all(language, kiln_us) for language in test_torch.LANGUAGES
                 for kiln_us in (5.0, 9.9))  # PyTorch takes 10 us
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
