#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains ResNet-50 on synthetic images, with or without kiln.

Usage: train_resnet50.py [OPTION]...

  --without-kiln   PyTorch runs all convolutions
  --prepare        request all plans before the first step, and wait for them
  --type TYPE      fp32, fp16 or bf16 (fp16); the last two by autocast, channels last
  --device DEVICE  (cuda); kiln needs a GPU, so on the CPU this is PyTorch alone
  --batch N        images in a step (64)
  --size N         height and width of an image (224)
  --steps N        (50)
  --report         say at the end what ran each convolution, and why

Prints the time of the first step, the median of the others, and the last loss.
"""
import argparse
import contextlib
import statistics
import time

import torch
from torch import nn

WARM_UP = 4  # steps until the plans have arrived and kiln was compared with PyTorch and timed


class Block(nn.Module):
    """A bottleneck: convolutions of 1x1, 3x3 and 1x1, whose result is added to the input."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width),
            nn.ReLU(True), nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity() if inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.layers(x) + self.shortcut(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True),
              nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for i, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            layers.append(Block(inputs, 64 << i, 2 if i and block == 0 else 1))
            inputs = 256 << i
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def parse():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--without-kiln", action="store_true")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--type", default="fp16", choices=["fp32", "fp16", "bf16"])
    parser.add_argument("--device", default="cuda", type=torch.device)
    for name, default in (("batch", 64), ("size", 224), ("steps", 50)):
        parser.add_argument(f"--{name}", default=default, type=int)
    parser.add_argument("--report", action="store_true")
    return parser.parse_args()


class Training:
    def __init__(self, options):
        self.device = options.device
        self.dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(options.type)
        form = torch.channels_last if self.dtype else torch.contiguous_format
        torch.manual_seed(0)
        self.model = resnet50().to(self.device, memory_format=form)
        self.images = torch.randn(options.batch, 3, options.size, options.size,
                                  device=self.device).to(memory_format=form)
        self.labels = torch.randint(1000, (options.batch,), device=self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.scaler = self.make_scaler()

    def make_scaler(self):
        is_needed = self.dtype == torch.float16
        if hasattr(torch.amp, "GradScaler"):  # from PyTorch 2.3 on
            return torch.amp.GradScaler(self.device.type, enabled=is_needed)
        return torch.cuda.amp.GradScaler(enabled=is_needed)

    def autocast(self):
        if self.dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, self.dtype)

    def step(self):
        """Returns the loss and the time in milliseconds."""
        begin = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            loss = nn.functional.cross_entropy(self.model(self.images), self.labels)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item(), (time.perf_counter() - begin) * 1e3  # item() waits for the GPU


def main():
    options = parse()
    has_kiln = not options.without_kiln and options.device.type == "cuda"
    torch.backends.cudnn.benchmark = True
    if has_kiln:
        import kiln.torch
        kiln.torch.install()
    training = Training(options)
    if has_kiln and options.prepare:
        with training.autocast():
            print(f"{kiln.torch.prepare(training.model, training.images)} convolutions")
        kiln.torch.wait()
    losses, times = zip(*(training.step() for _ in range(options.steps)))
    rest = times[WARM_UP:] or times[-1:]
    print(f"{'kiln' if has_kiln else 'PyTorch'}: first step {times[0]:.0f} ms, then "
          f"{statistics.median(rest):.1f} ms, loss {losses[-1]:.3f}")
    if has_kiln and options.report:
        print(kiln.torch.report())


if __name__ == "__main__":
    main()
