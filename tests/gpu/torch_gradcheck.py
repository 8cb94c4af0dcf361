#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares kiln.torch's gradients with finite differences on a GPU (docs/pytorch.md).

Usage: tests/gpu/torch_gradcheck.py

KILN_SOCKET names a kilnd, KILN_LIBRARY_PATH libkiln, and XDG_CACHE_HOME an empty directory. Runs
torch.autograd.gradcheck on small convolutions in fp32 without TF32, because kiln has no fp64. A
convolution is linear in each of its operands, so the step of the differences may be large, and only
rounding limits their precision. The gradients are also compared with PyTorch's in fp64. kiln runs
every convolution, also if it is slower.

Exit status: 0 all gradients are right; 1 one is not; 77 no PyTorch or no GPU.
"""
import sys
import traceback
import warnings

# Name, shapes of x and w, and the other arguments of torch's convolution.
LAYERS = [
    ("3x3", (2, 4, 6, 6), (4, 4, 3, 3), {"padding": 1}),
    ("bias", (2, 4, 6, 6), (4, 4, 3, 3), {"bias": True}),
    ("1x1", (2, 4, 6, 6), (6, 4, 1, 1), {}),
    ("strided", (2, 4, 7, 6), (4, 4, 3, 3), {"stride": (2, 1), "padding": (1, 0)}),
    ("dilated", (2, 4, 7, 7), (4, 4, 3, 3), {"dilation": 2, "padding": 2}),
    ("groups", (2, 8, 5, 5), (8, 4, 3, 3), {"groups": 2, "padding": 1}),
    ("depthwise", (2, 8, 5, 5), (8, 1, 3, 3), {"groups": 8, "padding": 1}),
    ("odd", (3, 5, 5, 6), (7, 5, 2, 3), {}),
    ("1-D", (2, 4, 12), (4, 4, 3), {"stride": 2, "padding": 1}),
    ("3-D", (1, 4, 4, 4, 4), (4, 4, 2, 2, 2), {}),
    ("transposed", (2, 4, 4, 4), (4, 4, 3, 3), {"stride": 2, "padding": 1, "transposed": True}),
]
STEP = 0.5  # of the differences
TOLERANCE = 1e-3  # absolute and relative; the operands and gradients are of the order of 1
PRECISION = 1e-5  # of the gradients, against fp64
EXIT_SKIPPED = 77


def layer_of(torch, row, last):
    """Returns the function and its operands."""
    _, x, w, rest = row
    rest = dict(rest)
    transposed, bias = rest.pop("transposed", False), rest.pop("bias", False)
    name = f"conv{'_transpose' if transposed else ''}{len(x) - 2}d"
    function = getattr(torch.nn.functional, name)
    torch.manual_seed(0)
    tensors = [torch.randn(shape, device="cuda") for shape in (x, w, *([(w[0],)] if bias else []))]
    if last:
        form = torch.channels_last if len(x) == 4 else torch.channels_last_3d
        tensors[:2] = [t.contiguous(memory_format=form) for t in tensors[:2]]
    return lambda *operands: function(*operands, **rest), [t.requires_grad_() for t in tensors]


def gradients(torch, run, operands):
    y = run(*operands)
    generator = torch.Generator(device="cuda").manual_seed(7)
    dy = torch.randn(y.shape, device="cuda", generator=generator).to(y.dtype)
    return torch.autograd.grad(y, operands, dy)


def calls_of(kiln):
    known = kiln.torch.convolutions()
    return sum(c.kiln_calls for c in known), sum(c.original_calls for c in known)


def check(torch, kiln, row, last):
    run, operands = layer_of(torch, row, last)
    for _ in range(2):  # requests the plans, then compares
        gradients(torch, run, operands)
        kiln.torch.wait(200)
    ours = gradients(torch, run, operands)
    doubles = [t.detach().double().requires_grad_() for t in operands]
    right = gradients(torch, run, doubles)
    error = max(float(torch.linalg.vector_norm(a.double() - b) / torch.linalg.vector_norm(b))
                for a, b in zip(ours, right))
    before = calls_of(kiln)
    torch.autograd.gradcheck(run, operands, eps=STEP, atol=TOLERANCE, rtol=TOLERANCE,
                             nondet_tol=1e-5)
    by_kiln, by_pytorch = (after - b for after, b in zip(calls_of(kiln), before))
    print(f"{row[0]}, channels {'last' if last else 'first'}: {by_kiln} calls by kiln, "
          f"{by_pytorch} by PyTorch, error against fp64 {error:.1e}", flush=True)
    return error <= PRECISION and by_kiln > 0 and by_pytorch == 0


def main():
    try:
        import torch
    except ImportError:
        return EXIT_SKIPPED
    if not torch.cuda.is_available():
        return EXIT_SKIPPED
    import kiln.torch
    import kiln.torch._choice
    torch.backends.cudnn.allow_tf32 = False
    kiln.torch.install()
    kiln.torch._choice.FASTER = float("inf")  # correctness does not depend on speed
    warnings.filterwarnings("ignore", message=".*double precision")
    wrong = []
    for row in LAYERS:
        for last in (False, True) if len(row[1]) > 3 else (False,):
            try:
                is_right = check(torch, kiln, row, last)
            except Exception:  # the next layer is still worth a try
                traceback.print_exc()
                is_right = False
            if not is_right:
                wrong.append(f"{row[0]}, channels {'last' if last else 'first'}")
    reasons = {c.reason for c in kiln.torch.convolutions() if c.type != "torch.float64"} - {""}
    print(f"wrong or not by kiln: {wrong or 'none'}; why PyTorch: {reasons or 'nothing'}; errors: "
          f"{kiln.torch._replaced.errors}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
