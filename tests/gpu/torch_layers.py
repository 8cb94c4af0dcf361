#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares kiln.torch with PyTorch's own convolutions on a GPU, layer by layer (docs/pytorch.md).

Usage: tests/gpu/torch_layers.py [--types LIST] [--seconds S]

KILN_SOCKET names a kilnd, and KILN_LIBRARY_PATH libkiln. Every layer runs forward and backward in
each type and layout, also if kiln is slower. The error of kiln and of PyTorch is the norm of the
difference from PyTorch's result in fp64, divided by that result's norm. kiln fails if its error
exceeds three times PyTorch's and the type's precision. Then CUDA graphs, torch.compile, prepare()
and the time on the CPU are checked.

Exit status: 0 all results are right; 1 one is not; 75 the time is over; 77 no PyTorch or no GPU.
"""
import argparse
import collections
import sys
import time
import traceback

# Name, shapes of x and w, and the other arguments of torch's convolution.
LAYERS = [
    ("stem", (8, 3, 64, 64), (64, 3, 7, 7), {"stride": 2, "padding": 3}),
    ("1x1", (8, 64, 28, 28), (128, 64, 1, 1), {}),
    ("1x1 strided", (8, 64, 28, 28), (128, 64, 1, 1), {"stride": 2}),
    ("3x3", (8, 64, 28, 28), (64, 64, 3, 3), {"padding": 1}),
    ("3x3 strided, bias", (8, 64, 28, 28), (64, 64, 3, 3), {"stride": 2, "padding": 1,
                                                          "bias": True}),
    ("same", (8, 32, 17, 19), (48, 32, 5, 3), {"padding": "same"}),
    ("dilated", (4, 32, 30, 30), (32, 32, 3, 3), {"dilation": 2, "padding": 2}),
    ("groups", (8, 64, 28, 28), (64, 16, 3, 3), {"groups": 4, "padding": 1}),
    ("depthwise", (8, 96, 28, 28), (96, 1, 7, 7), {"groups": 96, "padding": 3}),
    ("patches", (8, 3, 64, 64), (96, 3, 4, 4), {"stride": 4, "bias": True}),
    ("odd", (3, 5, 13, 11), (7, 5, 3, 2), {"padding": 1}),
    ("1-D", (8, 32, 200), (64, 32, 5), {"stride": 2, "padding": 2}),
    ("3-D", (2, 16, 8, 14, 14), (32, 16, 3, 3, 3), {"padding": 1}),
    ("transposed", (8, 64, 14, 14), (64, 32, 4, 4), {"stride": 2, "padding": 1,
                                                    "transposed": True, "bias": True}),
]
PRECISION = {"fp32": 1e-6, "tf32": 5e-4, "fp16": 5e-4, "bf16": 4e-3}
EXIT_OUT_OF_TIME, EXIT_SKIPPED = 75, 77


class Layer:
    """One layer in one type and layout."""

    def __init__(self, torch, row, kind, last):
        self.torch, self.name, self.kind, self.last = torch, row[0], kind, last
        _, x, w, rest = row
        self.rest = dict(rest)
        self.transposed = self.rest.pop("transposed", False)
        outputs = w[1] if self.transposed else w[0]
        generator = torch.Generator(device="cuda").manual_seed(len(self.name))

        def random(shape):
            dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(kind, torch.float32)
            made = torch.randn(shape, device="cuda", generator=generator).to(dtype)
            return made.contiguous(memory_format=self.form(made)) if last else made

        self.tensors = [random(x), random(w)]
        if self.rest.pop("bias", False):
            self.tensors.append(random((outputs,)))

    def form(self, tensor):
        torch = self.torch
        return {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim(),
                                                                       torch.contiguous_format)

    def run(self, double=False):
        """Returns the output and the gradients."""
        F = self.torch.nn.functional
        dims = self.tensors[0].dim() - 2
        function = getattr(F, f"conv{'_transpose' if self.transposed else ''}{dims}d")
        leaves = [(t.double() if double else t.detach()).requires_grad_() for t in self.tensors]
        y = function(*leaves, **self.rest)
        generator = self.torch.Generator(device="cuda").manual_seed(7)
        dy = self.torch.randn(y.shape, device="cuda", generator=generator)
        y.backward(dy.to(self.tensors[0].dtype).to(y.dtype))
        return [y.detach(), *(leaf.grad for leaf in leaves)]


def error(torch, made, wanted):
    size = torch.linalg.vector_norm(wanted)
    return float(torch.linalg.vector_norm(made.double() - wanted) / size)


def compare(torch, kiln, layer):
    """Returns the rows (tensor, kiln's error, PyTorch's error, whether kiln ran it, fault)."""
    kiln.torch.uninstall()
    wanted, theirs = layer.run(double=True), layer.run()
    kiln.torch.install()
    before = {id(c): c.kiln_calls for c in kiln.torch._replaced.choices.values()}
    layer.run()
    kiln.torch.wait(200)
    layer.run()
    made = layer.run()
    ran = {c.result for c in kiln.torch._replaced.choices.values()
           if c.kiln_calls > before.get(id(c), 0)}
    rows = []
    for name, one, other, right in zip(("output", "input", "weight", "bias"), made, theirs, wanted):
        ours, cudnn = error(torch, one, right), error(torch, other, right)
        fault = ""
        if not ours <= 3 * max(cudnn, PRECISION[layer.kind]):
            fault = "WRONG"
        elif one.stride() != other.stride():
            fault = f"STRIDES {one.stride()} {other.stride()}"
        rows.append((name, ours, cudnn, name in ran, fault))
    return rows


def check_layers(torch, kiln, kinds, end):
    counts = collections.Counter()
    largest = collections.defaultdict(lambda: [0.0, 0.0])
    for kind in kinds:
        torch.backends.cudnn.allow_tf32 = kind == "tf32"
        for row in LAYERS:
            for last in ((False, True) if len(row[1]) > 3 else (False,)):
                if time.monotonic() > end:
                    counts["out of time"] += 1
                    continue
                try:
                    rows = compare(torch, kiln, Layer(torch, row, kind, last))
                except Exception as failure:  # the next layer is still worth a try
                    print(f"{kind} {row[0]}: FAILED: {failure}")
                    traceback.print_exc()
                    counts["fault"] += 1
                    continue
                for name, ours, cudnn, ran, fault in rows:
                    counts["fault" if fault else "kiln" if ran else "PyTorch"] += 1
                    if ran:
                        largest[kind] = [max(largest[kind][0], ours), max(largest[kind][1], cudnn)]
                    if fault or (not ran and name != "bias"):
                        print(f"{kind} {'last' if last else 'first'} {row[0]} {name}: kiln "
                              f"{ours:.2e} PyTorch {cudnn:.2e} {'' if ran else 'not kiln'} {fault}")
        print(f"{kind}: {dict(counts)}, largest errors kiln, PyTorch: "
              f"{', '.join(f'{e:.2e}' for e in largest[kind])}", flush=True)
    return counts


def check_graph(torch, kiln):
    """Captures a known layer, replays it on new data, and compares."""
    layer = Layer(torch, LAYERS[3], "fp16", True)
    x, w = layer.tensors
    with torch.no_grad():
        for _ in range(3):
            torch.nn.functional.conv2d(x, w, padding=1)
            kiln.torch.wait(200)
        before = sum(c.kiln_calls for c in kiln.torch.convolutions())
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = torch.nn.functional.conv2d(x, w, padding=1)
        captured = sum(c.kiln_calls for c in kiln.torch.convolutions()) - before
        x.copy_(torch.randn_like(x))
        graph.replay()
        torch.cuda.synchronize()
        wanted = torch.nn.functional.conv2d(x.double(), w.double(), padding=1)
        difference = error(torch, y, wanted)
        # A layer that kiln has not planned yet must not break the graph's capture.
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.nn.functional.conv2d(x, w, padding=2)
    print(f"graph: {captured} captured from kiln, error of the replay {difference:.2e}")
    return captured == 1 and difference < 2e-3


def check_compile(torch, kiln):
    x, w = Layer(torch, LAYERS[3], "fp16", True).tensors
    compiled = torch.compile(lambda x, w: torch.nn.functional.conv2d(x, w, padding=1).relu())
    before = sum(c.kiln_calls for c in kiln.torch.convolutions())
    with torch.no_grad():
        for _ in range(4):
            y = compiled(x, w)
            kiln.torch.wait(200)
        kiln.torch.uninstall()
        wanted = torch.nn.functional.conv2d(x, w, padding=1).relu()
        kiln.torch.install()
    calls = sum(c.kiln_calls for c in kiln.torch.convolutions()) - before
    difference = error(torch, y, wanted.double())
    print(f"torch.compile: {calls} of 4 calls by kiln, difference {difference:.2e}")
    return calls > 0 and difference < 2e-3


def check_prepare(torch, kiln):
    """Prepares a model as it is, and as PyTorch's compilers return it. A traced model calls another
    operator, so only its 3 gradients are prepared."""
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 1))
    model, x = model.cuda().eval(), torch.randn(2, 3, 16, 16, device="cuda")
    ways = {"plain": (lambda: model, 5), "compile": (lambda: torch.compile(model), 5),
            "export": (lambda: torch.export.export(model, (x,)), 5),
            "script": (lambda: torch.jit.script(model), 5),
            "trace": (lambda: torch.jit.trace(model, x), 3)}
    is_right = True
    for name, (make, wanted) in ways.items():
        errors = len(kiln.torch._replaced.errors)
        found = kiln.torch.prepare(make(), x)
        new = kiln.torch._replaced.errors[errors:]
        print(f"prepare, {name}: {found} of {wanted} convolutions {new or ''}")
        is_right = is_right and found == wanted and not new
    return is_right and kiln.torch.wait(200)


def cpu_us(torch, run, calls=300):
    """Returns the CPU time of a call. The GPU's work takes less time, or the job waits for it
    between rounds."""
    best = float("inf")
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            run()
        best = min(best, (time.perf_counter() - begin) / calls * 1e6)
    return best


def check_cpu(torch, kiln):
    """Prints what one call costs on the CPU. The layer is so small that the GPU does not count."""
    x = torch.randn(1, 16, 8, 8, device="cuda", dtype=torch.float16)
    w = torch.randn(16, 16, 3, 3, device="cuda", dtype=torch.float16)
    dy = torch.randn(1, 16, 8, 8, device="cuda", dtype=torch.float16)
    rest = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    aten = torch.ops.aten

    def backward():
        return aten.convolution_backward(dy, x, w, None, *rest, [True, True, False])

    with torch.no_grad():
        for name, run in (("forward", lambda: aten.convolution(x, w, None, *rest)),
                          ("backward", backward)):
            kiln.torch.uninstall()
            plain = cpu_us(torch, run)
            kiln.torch.install()
            for _ in range(3):
                run()
                kiln.torch.wait(200)
            print(f"CPU time of {name}: {plain:.1f} us with PyTorch, {cpu_us(torch, run):.1f} us "
                  "with kiln", flush=True)
    return True


def profile(torch):
    """Prints where kiln's time on the CPU goes."""
    import cProfile
    import pstats
    x = torch.randn(1, 16, 8, 8, device="cuda", dtype=torch.float16)
    w = torch.randn(16, 16, 3, 3, device="cuda", dtype=torch.float16)
    rest = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    recorder = cProfile.Profile()
    with torch.no_grad():
        recorder.enable()
        for _ in range(1000):
            torch.ops.aten.convolution(x, w, None, *rest)
        recorder.disable()
    torch.cuda.synchronize()
    pstats.Stats(recorder).sort_stats("tottime").print_stats(12)
    return True


def guarded(name, check, *arguments):
    try:
        return check(*arguments)
    except Exception:
        print(f"{name}: FAILED")
        traceback.print_exc()
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--types", default="fp32,tf32,fp16,bf16")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    try:
        import torch
    except ImportError:
        return EXIT_SKIPPED
    if not torch.cuda.is_available():
        return EXIT_SKIPPED
    import kiln.torch
    import kiln.torch._choice
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}", flush=True)
    kiln.torch.install()
    kiln.torch._choice.FASTER = float("inf")  # correctness does not depend on speed
    counts = check_layers(torch, kiln, options.types.split(","), end)
    fine = [guarded("graph", check_graph, torch, kiln),
            guarded("torch.compile", check_compile, torch, kiln),
            guarded("prepare", check_prepare, torch, kiln),
            guarded("CPU time", check_cpu, torch, kiln)]
    if options.profile:
        guarded("profile", profile, torch)
    reasons = collections.Counter(c.reason for c in kiln.torch.convolutions() if c.reason)
    print(f"{dict(counts)}; why PyTorch: {dict(reasons)}; errors: {kiln.torch._replaced.errors}")
    if counts["fault"] or not all(fine):
        return 1
    return EXIT_OUT_OF_TIME if counts["out of time"] else 0


if __name__ == "__main__":
    sys.exit(main())
