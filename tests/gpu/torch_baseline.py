#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures PyTorch's time for each problem, with cuDNN in benchmark mode.

Usage: tests/gpu/torch_baseline.py [--seconds S] --json OUT FILE

FILE has JSON lines of gpu_trials or cudnn_baseline; their problems are run. Times are measured as
in gpu_trials: in 15 batches, each of 0.6 ms or of one launch. The result is the median of the
batches' means. The launches of a batch are one CUDA graph, so that PyTorch's time on the CPU does
not count.
"""
import argparse
import json
import statistics
import sys
import time

BATCHES = 15
BATCH_US = 600.0
LAUNCHES_MAX = 200
# For each axis, MIOpenDriver's options for the depth, the height and the width.
AXES = {"in": ("in_d", "H", "W"), "filter": ("fil_d", "y", "x"), "pad": ("pad_d", "p", "q"),
        "stride": ("conv_stride_d", "u", "v"), "dilation": ("dilation_d", "l", "j")}
FIELDS = ("label", "problem", "type", "layout", "direction", "flops", "bytes")


def shape_of(line):
    """Returns the sizes in a line of MIOpenDriver that gpu_trials wrote."""
    words = line.split()[1:]
    values = {name.lstrip("-"): value for name, value in zip(words[::2], words[1::2])}
    dims = int(values.get("spatial_dim", 2))
    shape = {name: [int(values[flag]) for flag in flags[3 - dims:]] for name, flags in AXES.items()}
    groups = int(values["g"])
    shape["x"] = [int(values["n"]), int(values["c"]), *shape["in"]]
    shape["w"] = [int(values["k"]), int(values["c"]) // groups, *shape["filter"]]
    return shape | {"groups": groups, "layouts": {values.get(f"{name}_layout", "NCHW")[-1]
                                                  for name in ("in", "fil", "out")}}


def work_of(torch, row):
    """Returns a function that runs the problem once."""
    shape = shape_of(row["problem"])
    if len(shape["layouts"]) > 1:
        return None  # PyTorch would convert the layouts
    last = torch.channels_last if len(shape["in"]) == 2 else torch.channels_last_3d
    form = last if shape["layouts"] == {"C"} else torch.contiguous_format
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(row["type"], torch.float32)
    x, w = (torch.randn(shape[name], device="cuda", dtype=kind).contiguous(memory_format=form)
            for name in ("x", "w"))
    rest = (shape["stride"], shape["pad"], shape["dilation"], False, [0] * len(shape["in"]),
            shape["groups"])
    if row["direction"] == "F":
        return lambda: torch.ops.aten.convolution(x, w, None, *rest)
    y = torch.ops.aten.convolution(x, w, None, *rest)
    dy = torch.randn_like(y)
    mask = [row["direction"] == "B", row["direction"] == "W", False]
    return lambda: torch.ops.aten.convolution_backward(dy, x, w, None, *rest, mask)


def microseconds(torch, run):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3


def graph_of(torch, work, launches):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            work()
    return graph


def measure(torch, work):
    """Returns (the median of the batches' means, their relative spread)."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):  # in the first iteration, cuDNN chooses its algorithm
            work()
    side.synchronize()
    once = graph_of(torch, work, 1)
    microseconds(torch, once.replay)
    launches = int(min(LAUNCHES_MAX, max(1, BATCH_US // microseconds(torch, once.replay))))
    graph = graph_of(torch, work, launches) if launches > 1 else once
    graph.replay()
    means = sorted(microseconds(torch, graph.replay) / launches for _ in range(BATCHES))
    return statistics.median(means), (means[-1] - means[0]) / means[BATCHES // 2]


def timed(torch, row):
    result = {name: row[name] for name in FIELDS}
    result |= {"solver": "PyTorch", "config": "", "state": "ok", "us": 0.0, "spread": 0.0}
    torch.backends.cudnn.allow_tf32 = row["type"] == "tf32"
    try:
        work = work_of(torch, row)
        if work:
            result["us"], result["spread"] = measure(torch, work)
        else:
            result["state"] = "none"
    except RuntimeError as error:
        result |= {"state": "FAILED", "text": str(error).splitlines()[0]}
    torch.cuda.empty_cache()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--json", required=True)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("file")
    options = parser.parse_args()
    import torch  # pylint: disable=import-outside-toplevel
    torch.backends.cudnn.benchmark = True
    end = time.monotonic() + options.seconds
    print(f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    with open(options.file, encoding="utf-8") as file:
        rows = list({row["label"]: row for row in map(json.loads, file)}.values())
    with open(options.json, "w", encoding="utf-8") as out:
        for row in rows:
            if time.monotonic() > end:
                break
            print(json.dumps(timed(torch, row)), file=out, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
