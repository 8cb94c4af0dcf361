#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures training steps of torchvision's networks with and without kiln.torch (docs/pytorch.md).

Usage: tests/gpu/torch_step.py [OPTION]...

KILN_SOCKET names a kilnd, KILN_LIBRARY_PATH libkiln, and XDG_CACHE_HOME an empty directory. A step
is forward, cross entropy, backward and SGD on synthetic images, with cuDNN in benchmark mode. In
one process, rounds of steps with and without kiln take turns; a time is the median of the rounds.
The first step without kiln comes first in this process. The first steps with kiln are those of a
new process, which has kilnd's plans and the choices of this one; the context and the model exist
then. The host waits for the GPU after each of these steps.
In the columns "graph", a CUDA graph of the whole step is replayed, so the CPU does not count.

The losses of a run with kiln are compared with PyTorch's. So are those of PyTorch with the images
of the batch in another order, which shows what rounding alone does; a network with dropout or
stochastic depth then drops other parts.

  --networks LIST  torchvision's names (resnet50,resnext50_32x4d,efficientnet_b0,convnext_tiny)
  --types LIST     fp32, tf32, fp16, bf16; the last two with autocast, channels last
  --batch N        (64)
  --steps N        of a round (10)
  --rounds N       of each kind (5)
  --losses N       steps whose losses are compared (20)
  --first LIST     the types of which the first steps with kiln are measured (all)
  --first-only     measures only the first steps with kiln, with the choices of an earlier run
  --prepare        calls prepare() before the first step with kiln, and prints the time until the
                   plans are there
  --curves N       compares only the losses of N steps: with kiln, twice without kiln, and without
                   kiln from two other sets of initial weights. Each step has other images, whose
                   labels can be learnt
  --seconds S      begins no new row after S seconds (600)
  --limit R        a row fails if a step with kiln takes more than R times as long as without
  --lines FILE     writes the problems of the networks to FILE, for kiln-driver
  --report         prints what runs where, for each row

Exit status: 0 every row was measured; 1 a row failed; 75 the time is over; 77 no PyTorch or no GPU.
"""
import argparse
import contextlib
import itertools
import json
import statistics
import subprocess
import sys
import time
import traceback

NETWORKS = "resnet50,resnext50_32x4d,efficientnet_b0,convnext_tiny"
HEADER = """
| network | type | PyTorch ms | kiln ms | ratio | graph: PyTorch ms | kiln ms | ratio \
| first step s: PyTorch, kiln | kiln's step 2, longest of 3 to 10 s | plans s | by kiln \
| loss difference: kiln, PyTorch in another order |
| --- | --- | --: | --: | --: | --: | --: | --: | --- | --- | --: | --: | --- |"""
FIRST_HEADER = """
| network | type | prepare s | step 1 s | step 2 s | steps 3 to 10 s | calls |
| --- | --- | --: | --: | --: | --- | --- |"""
FIRST_STEPS = 10
CURVES_HEADER = """
| network | type | mean of the last 10 losses: kiln, PyTorch, PyTorch again, two other seeds \
| mean distance: kiln from PyTorch | PyTorch again | three pairs of seeds |
| --- | --- | --- | --: | --: | --- |"""
CLASSES = 100  # of the images for --curves
EXIT_OUT_OF_TIME, EXIT_SKIPPED = 75, 77


class Job:
    """A network in training, in one type."""

    def __init__(self, torch, name, kind, batch):
        import torchvision
        self.torch = torch
        self.dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(kind)
        torch.backends.cudnn.allow_tf32 = kind == "tf32"
        torch.manual_seed(0)
        form = self.form = torch.channels_last if self.dtype else torch.contiguous_format
        self.build = getattr(torchvision.models, name)
        self.model = self.build().cuda().to(memory_format=form)
        self.start = {k: v.clone() for k, v in self.model.state_dict().items()}
        self.images = torch.randn(batch, 3, 224, 224, device="cuda").to(memory_format=form)
        self.labels = torch.randint(1000, (batch,), device="cuda")
        self.restart()

    def restart(self, seed=0):
        self.torch.manual_seed(seed)
        self.model.load_state_dict(self.build().state_dict() if seed else self.start)
        self.torch.manual_seed(1 + seed)  # for dropout and stochastic depth
        self.optimizer = self.torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def cast(self):
        if self.dtype:
            return self.torch.autocast("cuda", self.dtype, cache_enabled=False)
        return contextlib.nullcontext()

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with self.cast():
            loss = self.torch.nn.functional.cross_entropy(self.model(self.images), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def milliseconds(self, steps):
        self.torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            self.step()
        self.torch.cuda.synchronize()
        return (time.perf_counter() - begin) / steps * 1e3

    def graph_milliseconds(self, replays):
        """Captures a step into a graph, and returns the time of a replay."""
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self.step()
        times = []
        for _ in range(3):
            graph.replay()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(replays):
                graph.replay()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - begin) / replays * 1e3)
        return min(times)

    def losses(self, steps):
        self.restart()
        return self.torch.stack([self.step() for _ in range(steps)]).tolist()


class Curves:
    """Loss curves of a job. The images of a class are noise around one random image."""

    def __init__(self, torch, job, steps):
        self.torch, self.job, self.steps = torch, job, steps
        self.centres = torch.randn((CLASSES, *job.images.shape[1:]), device="cuda",
                                   generator=self.generator(0))

    def generator(self, seed):
        return self.torch.Generator(device="cuda").manual_seed(seed)

    def next_batch(self, step):
        job, generator = self.job, self.generator(1 + step)
        job.labels = self.torch.randint(CLASSES, job.labels.shape, device="cuda",
                                        generator=generator)
        images = self.torch.randn(job.images.shape, device="cuda", generator=generator)
        job.images = images.add_(self.centres[job.labels]).contiguous(memory_format=job.form)

    def curve(self, seed):
        self.job.restart(seed)
        losses = []
        for step in range(self.steps):
            self.next_batch(step)
            losses.append(self.job.step())
        return self.torch.stack(losses).cpu()


def distance(ours, theirs):
    return f"{float((ours - theirs).abs().mean()):.4f}"


def run_curves(torch, kiln, options, name, kind):
    kiln.torch.install()
    job = Job(torch, name, kind, options.batch)
    job.milliseconds(1)
    kiln.torch.wait(300)
    job.milliseconds(3)  # times and chooses
    curves = Curves(torch, job, options.curves)
    ours = curves.curve(0)
    kiln.torch.uninstall()
    theirs = [curves.curve(seed) for seed in (0, 0, 1, 2)]
    first, again, *others = theirs
    last = ", ".join(f"{float(curve[-10:].mean()):.3f}" for curve in (ours, *theirs))
    pairs = ", ".join(distance(*pair) for pair in itertools.combinations((first, *others), 2))
    print(f"| {name} | {kind} | {last} | {distance(ours, first)} | {distance(again, first)} | "
          f"{pairs} |", flush=True)


def calls_of(convolutions):
    """Returns the number of calls of each convolution, in the order of their first calls."""
    return [c.kiln_calls + c.original_calls for c in convolutions]


def furthest(ours, theirs):
    """Returns the largest relative difference of two curves of losses."""
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))


def run_row(torch, kiln, options, name, kind):
    kiln.torch.uninstall()
    job = Job(torch, name, kind, options.batch)
    before = calls_of(kiln.torch.convolutions())
    row = {"first": job.milliseconds(1) / 1e3}
    job.milliseconds(3)
    kiln.torch.install()
    job.milliseconds(1)
    begin = time.perf_counter()
    kiln.torch.wait(300)
    row["plans"] = time.perf_counter() - begin
    job.milliseconds(3)  # times and chooses
    rounds = {"plain": [], "kiln": []}
    for _ in range(options.rounds):
        kiln.torch.uninstall()
        rounds["plain"].append(job.milliseconds(options.steps))
        kiln.torch.install()
        rounds["kiln"].append(job.milliseconds(options.steps))
    row |= {kind: statistics.median(times) for kind, times in rounds.items()}
    ours = job.losses(options.losses)
    kiln.torch.uninstall()
    theirs = job.losses(options.losses)
    order = torch.randperm(options.batch, device="cuda")
    job.images, job.labels = job.images[order].to(memory_format=job.form), job.labels[order]
    row["losses"] = furthest(ours, theirs), furthest(job.losses(options.losses), theirs)
    row["graph_plain"] = job.graph_milliseconds(options.steps)
    kiln.torch.install()
    row["graph_kiln"] = job.graph_milliseconds(options.steps)
    after = kiln.torch.convolutions()
    before += [0] * (len(after) - len(before))
    row["convolutions"] = [c for c, n, m in zip(after, before, calls_of(after)) if n < m]
    if kind in options.first.split(","):
        del job
        torch.cuda.empty_cache()
        row["first_kiln"] = first_in_new_process(options, name, kind)
    return row


def first_in_new_process(options, name, kind):
    """Returns the seconds of prepare() and of the first steps, and the report's first line."""
    command = [sys.executable, __file__, "--child", "--networks", name, "--types", kind, "--batch",
               str(options.batch), *(["--prepare"] if options.prepare else [])]
    ended = subprocess.run(command, check=True, text=True, timeout=120, stdout=subprocess.PIPE)
    return json.loads(ended.stdout)


def child(torch, kiln, options):
    kiln.torch.install()
    job = Job(torch, options.networks, options.types, options.batch)
    begin = time.perf_counter()
    if options.prepare:
        with job.cast():
            kiln.torch.prepare(job.model, job.images)
        kiln.torch.wait(60)
    prepared = time.perf_counter() - begin
    seconds = [job.milliseconds(1) / 1e3 for _ in range(FIRST_STEPS)]
    json.dump((prepared, seconds, kiln.torch.report().splitlines()[0]), sys.stdout)
    return 0


def run_first(torch, kiln, options, name, kind):
    prepared, (first, second, *others), report = first_in_new_process(options, name, kind)
    print(f"| {name} | {kind} | {prepared:.2f} | {first:.2f} | {second:.3f} | "
          f"{' '.join(f'{s:.3f}' for s in others)} | {report} |", flush=True)


def print_row(name, kind, row):
    found = row["convolutions"]
    by_kiln = sum(c.runs_by == "kiln" for c in found)
    first, later = "-", "-"
    if "first_kiln" in row:
        _, seconds, _ = row["first_kiln"]
        first, later = f"{seconds[0]:.2f}", f"{seconds[1]:.3f}, {max(seconds[2:]):.3f}"
    print(f"| {name} | {kind} | {row['plain']:.1f} | {row['kiln']:.1f} | "
          f"{row['kiln'] / row['plain']:.3f} | {row['graph_plain']:.1f} | "
          f"{row['graph_kiln']:.1f} | {row['graph_kiln'] / row['graph_plain']:.3f} | "
          f"{row['first']:.1f}, {first} | {later} | "
          f"{row['plans']:.1f} | {by_kiln} of {len(found)} | {row['losses'][0]:.1e}, "
          f"{row['losses'][1]:.1e} |", flush=True)


def print_report(name, kind, row):
    print(f"{name} {kind}:")
    for c in sorted(row["convolutions"], key=lambda c: -c.original_us):
        print(f"  {c.runs_by} {c.result} {c.kiln_us:.1f} {c.original_us:.1f} us {c.solver} "
              f"{c.reason} {c.kiln_calls}/{c.kiln_calls + c.original_calls} {c.problem}")


def measure_row(torch, kiln, options, name, kind):
    row = run_row(torch, kiln, options, name, kind)
    print_row(name, kind, row)
    return name, kind, row


def each_row(torch, kiln, options, measure):
    """Calls |measure| for each network and type. Returns the exit status, and what it returned."""
    end = time.monotonic() + options.seconds
    status, made = 0, []
    for name in options.networks.split(","):
        for kind in options.types.split(","):
            if time.monotonic() > end:
                status = status or EXIT_OUT_OF_TIME
                continue
            try:
                made.append(measure(torch, kiln, options, name, kind))
            except Exception:  # the other rows are still worth a try
                traceback.print_exc()
                status = 1
            torch.cuda.empty_cache()
    return status, made


def too_slow(rows, limit):
    """Prints the rows above the limit, and returns whether there is one."""
    slow = [(*row[:2], row[2]["kiln"] / row[2]["plain"]) for row in rows
            if limit and row[2]["kiln"] > limit * row[2]["plain"]]
    for name, kind, ratio in slow:
        print(f"FAILED: {name} {kind} takes {ratio:.3f} times as long, more than {limit}")
    return bool(slow)


def print_all(rows, options):
    if rows:
        mean = statistics.geometric_mean
        print("\nkiln's time divided by PyTorch's, geometric mean: "
              f"{mean(row['kiln'] / row['plain'] for _, _, row in rows):.3f}, in a graph "
              f"{mean(row['graph_kiln'] / row['graph_plain'] for _, _, row in rows):.3f}")
    for row in rows if options.report else ():
        print_report(*row)
    if options.lines:
        with open(options.lines, "w", encoding="utf-8") as out:
            lines = {c.problem for _, _, row in rows for c in row["convolutions"] if c.problem}
            out.write("".join(f"{line}\n" for line in sorted(lines)))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--networks", default=NETWORKS)
    parser.add_argument("--types", default="fp32,tf32,fp16,bf16")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--losses", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--first", default="fp32,tf32,fp16,bf16")
    parser.add_argument("--first-only", action="store_true")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--curves", type=int)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=float)
    parser.add_argument("--lines")
    parser.add_argument("--report", action="store_true")
    return parser.parse_args()


def main():
    options = parse()
    try:
        import torch
    except ImportError:
        return EXIT_SKIPPED
    if not torch.cuda.is_available():
        return EXIT_SKIPPED
    import kiln.torch
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    if options.child:
        return child(torch, kiln, options)
    header = FIRST_HEADER if options.first_only else CURVES_HEADER if options.curves else HEADER
    print(f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, batch "
          f"{options.batch}\n{header}", flush=True)
    if options.first_only or options.curves:
        return each_row(torch, kiln, options, run_first if options.first_only else run_curves)[0]
    kiln.torch.install()
    print(kiln.torch.report().splitlines()[-1].strip(), file=sys.stderr)  # in C or Python
    status, rows = each_row(torch, kiln, options, measure_row)
    print_all(rows, options)
    return 1 if too_slow(rows, options.limit) else status


if __name__ == "__main__":
    sys.exit(main())
