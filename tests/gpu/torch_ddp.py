#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains with kiln.torch on two GPUs, and compares with PyTorch alone (docs/pytorch.md).

Usage: tests/gpu/torch_ddp.py

KILN_SOCKET names a kilnd, KILN_LIBRARY_PATH libkiln, and XDG_CACHE_HOME an empty directory. Two
checks:

1. Two processes train torchvision's ResNet-50 with DistributedDataParallel over NCCL, 10 steps
   without kiln and the same 10 steps with it. The losses must agree, both processes must have the
   same weights, and each process may use its own GPU only.
2. One process runs a convolution on two GPUs, in two threads with a stream each, and with streams
   in turns in one thread. The results must agree with PyTorch's.

kiln runs every convolution, also if it is slower. The first run takes longer, because kilnd
compiles.

Exit status: 0 all is right; 1 something is not; 77 no PyTorch, no torchvision or fewer than 2 GPUs.
"""
import os
import sys
import tempfile
import threading

RANKS, STEPS, BATCH = 2, 10, 16
TOLERANCE = 0.02  # of a loss, relative; rounding alone changes it by up to 0.01 in 12 steps
PRECISION = 1e-3  # of a convolution in fp32
EXIT_SKIPPED = 77


def kiln_for_everything():
    import kiln.torch
    import kiln.torch._choice
    kiln.torch._choice.FASTER = float("inf")
    kiln.torch.install()
    return kiln.torch


class Job:
    """A rank's part of the training."""

    def __init__(self, torch, rank):
        import torchvision
        self.torch = torch
        torch.manual_seed(0)
        model = torchvision.models.resnet50().cuda(rank)
        self.start = {k: v.clone() for k, v in model.state_dict().items()}
        self.model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
        torch.manual_seed(1 + rank)
        self.images = torch.randn(BATCH, 3, 224, 224, device=f"cuda:{rank}")
        self.labels = torch.randint(1000, (BATCH,), device=f"cuda:{rank}")

    def losses(self, steps):
        self.model.module.load_state_dict(self.start)
        optimizer = self.torch.optim.SGD(self.model.parameters(), lr=0.001, momentum=0.9)
        losses = []
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=True)
            loss = self.torch.nn.functional.cross_entropy(self.model(self.images), self.labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return self.torch.stack(losses).tolist()

    def sums_of_all_ranks(self):
        """Returns the sum of all weights of each rank."""
        total = sum(p.detach().double().sum() for p in self.model.parameters())
        made = [self.torch.zeros_like(total) for _ in range(RANKS)]
        self.torch.distributed.all_gather(made, total)
        return [float(t) for t in made]


def train(rank, directory):
    """The work of one process. Raises an error if something is wrong."""
    import torch
    torch.cuda.set_device(rank)
    torch.backends.cudnn.allow_tf32 = False
    torch.distributed.init_process_group("nccl", init_method=f"file://{directory}/ranks",
                                         rank=rank, world_size=RANKS)
    job = Job(torch, rank)
    theirs = job.losses(STEPS)
    kiln = kiln_for_everything()
    job.losses(1)
    assert kiln.wait(200), "kilnd has not answered within 200 s"
    job.losses(1)  # compares
    ours = job.losses(STEPS)
    distance = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
    sums = job.sums_of_all_ranks()
    choices = kiln._replaced.choices.values()
    devices = {str(choice._device) for choice in choices}
    print(f"rank {rank}: {kiln.report().splitlines()[0]}; losses {ours[0]:.3f} to {ours[-1]:.3f}, "
          f"at most {distance:.1e} from PyTorch's; devices {devices}; sums of weights {sums}",
          flush=True)
    assert distance <= TOLERANCE, f"losses {ours} with kiln, {theirs} without"
    assert sums[0] == sums[1], "the ranks have different weights"
    assert sum(c.kiln_calls for c in choices) > 0, kiln.report()
    assert devices == {f"cuda:{rank}"} and set(kiln._replaced._accelerator._devices) == {rank}
    assert torch.cuda.memory_allocated(1 - rank) == 0, "memory on the other rank's GPU"
    torch.distributed.destroy_process_group()


def step(torch, tensors):
    leaves = [t.detach().requires_grad_() for t in tensors]
    y = torch.nn.functional.conv2d(*leaves, padding=1)
    y.backward(torch.ones_like(y))
    return [y.detach(), *(leaf.grad for leaf in leaves)]


class Place:
    """A device with a stream, and the convolution's operands there."""

    def __init__(self, torch, index):
        self.torch, self.index = torch, index
        self.stream = torch.cuda.Stream(index)
        torch.manual_seed(index)
        self.tensors = [torch.randn(shape, device=f"cuda:{index}")
                        for shape in ((8, 64, 28, 28), (64, 64, 3, 3))]
        torch.cuda.synchronize(index)
        self.wanted, self.largest, self.failure = None, 0.0, None

    def step(self):
        with self.torch.cuda.device(self.index), self.torch.cuda.stream(self.stream):
            made = step(self.torch, self.tensors)
            self.stream.synchronize()
        return made

    def compare(self, times):
        norm = self.torch.linalg.vector_norm
        try:
            for _ in range(times):
                for one, other in zip(self.step(), self.wanted):
                    self.largest = max(self.largest, float(norm(one - other) / norm(other)))
        except Exception as error:
            self.failure = error


def check_two_devices():
    import torch
    torch.backends.cudnn.allow_tf32 = False
    places = [Place(torch, index) for index in range(2)]
    for place in places:
        place.wanted = place.step()
    kiln = kiln_for_everything()
    for _ in range(2):
        for place in places:
            place.step()
        assert kiln.wait(200), "kilnd has not answered within 200 s"
    before = sum(c.kiln_calls for c in kiln.convolutions())
    threads = [threading.Thread(target=place.compare, args=(50,)) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(20):
        for place in places:
            place.compare(1)
    calls = sum(c.kiln_calls for c in kiln.convolutions()) - before
    devices = {str(choice._device) for choice in kiln._replaced.choices.values()}
    print(f"two devices: {calls} of 420 calls by kiln on {sorted(devices)}, results at most "
          f"{max(place.largest for place in places):.1e} from PyTorch's, errors "
          f"{kiln._replaced.errors}", flush=True)
    for place in places:
        if place.failure:
            raise place.failure
    assert calls == 420 and len(devices) == 2, kiln.report()
    assert all(place.largest <= PRECISION for place in places)


def main():
    try:
        import torch
        import torchvision  # noqa: F401
    except ImportError:
        return EXIT_SKIPPED
    if not torch.cuda.is_available() or torch.cuda.device_count() < RANKS:
        return EXIT_SKIPPED
    with tempfile.TemporaryDirectory() as directory:
        os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # not every host allows NVLink multicast
        torch.multiprocessing.spawn(train, args=(directory,), nprocs=RANKS)
    check_two_devices()
    return 0


if __name__ == "__main__":
    sys.exit(main())
