#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares torchvision's networks with and without kiln.torch (docs/pytorch.md).

Usage: tests/gpu/torch_models.py [OPTION]...

Each network for classification, segmentation and video computes its output and all gradients in
fp32, once without kiln and several times with kiln, in one process. Each result must have the
strides that it has without kiln, and differ by at most 0.001 of its norm. kiln runs every
convolution that it supports, also those at which it is slower. KILN_SOCKET names a kilnd,
KILN_LIBRARY_PATH libkiln, and XDG_CACHE_HOME an empty directory. Without a GPU, the networks run on
the CPU, and a fake accelerator (tests/python/test_torch.py) stands in for kilnd and kiln's kernels.
KILN_BUILD then names the build directory.

  --match REGEX  only networks whose name matches
  --size N       height and width of the images (64), of which a video has 4; a network that fails
                 with such images without kiln is skipped
  --seconds S    begins no network after S seconds (3600)

Exit status: 0 all networks agree; 1 one does not; 77 no PyTorch or no torchvision.
"""
import argparse
import math
import re
import sys
import time

from torch_own_tests import EXIT_SKIPPED, install_fake

ROUNDS = 4
DIFFERENCE_MAX = 1e-3
FRAMES = 4
SEED = 1
PLAN_WAIT_S = 300


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--match", default="")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=3600)
    return parser.parse_args()


def names_by_kind(match):
    from torchvision import models
    for kind in (models, models.segmentation, models.video):
        for name in models.list_models(module=kind):
            if re.search(match, name):
                yield kind, name


def make(kind, name, device):
    import torch
    from torchvision import models
    torch.manual_seed(SEED)
    options = {"weights_backbone": None} if kind is models.segmentation else {}
    if name in ("googlenet", "inception_v3"):
        options["init_weights"] = False  # initializes for a minute
    return models.get_model(name, weights=None, **options).eval().to(device)


def results_of(model, images):
    """Returns the output and all gradients of a step."""
    model.zero_grad(set_to_none=True)
    made = model(images)
    made = made["out"] if isinstance(made, dict) else made
    made.square().mean().backward()
    return {"output": made.detach(), **{name: parameter.grad.clone()
                                        for name, parameter in model.named_parameters()
                                        if parameter.grad is not None}}


def difference_of(wanted, made):
    """Returns the largest difference of two results, as a part of the result's norm."""
    largest = 0.0
    for name, one in wanted.items():
        if made[name].stride() != one.stride():
            raise ValueError(f"{name} has strides {made[name].stride()}, not {one.stride()}")
        difference = float((made[name] - one).norm() / one.norm().clamp(min=1e-12))
        largest = max(largest, difference if math.isfinite(difference) else math.inf)
    return largest


def compare(model, images):
    """Returns the largest difference, or None if the network cannot run without kiln either."""
    import kiln.torch
    kiln.torch.uninstall()
    try:
        wanted = results_of(model, images)
    except (RuntimeError, ValueError, AssertionError) as error:
        print(f"skipped: {' '.join(str(error).split())[:100]}")
        return None
    kiln.torch.install()
    largest = 0.0
    for _ in range(ROUNDS):
        largest = max(largest, difference_of(wanted, results_of(model, images)))
        kiln.torch.wait(PLAN_WAIT_S)
    return largest


def calls_of_kiln():
    import kiln.torch
    return sum(c.kiln_calls for c in kiln.torch.convolutions())


def run(kind, name, size, device):
    """Returns whether the network agrees."""
    import torch
    from torchvision import models
    print(f"{name}: ", end="", flush=True)
    before = calls_of_kiln()
    frames = (FRAMES,) if kind is models.video else ()
    images = torch.randn(1, 3, *frames, size, size, device=device)
    try:
        difference = compare(make(kind, name, device), images)
    except Exception as error:  # pylint: disable=broad-except
        print(f"FAILED: {type(error).__name__}: {error}")
        return False
    if difference is None:
        return True
    is_right = difference <= DIFFERENCE_MAX
    print(f"{'' if is_right else 'FAILED: '}differs by {difference:.1e}, "
          f"{calls_of_kiln() - before} calls by kiln", flush=True)
    return is_right


def main():
    options = parse()
    try:
        import torch
        import torchvision  # noqa: F401
    except ImportError:
        return EXIT_SKIPPED
    import kiln.torch
    from kiln.torch import _choice, _operators
    _choice.FASTER = math.inf
    _operators.CHOICES_MAX = 1 << 20  # the networks have more different convolutions than a job
    torch.backends.cudnn.allow_tf32 = False
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kiln.torch.install() if device == "cuda" else install_fake()
    end = time.monotonic() + options.seconds
    wrong = count = 0
    for kind, name in names_by_kind(options.match):
        if time.monotonic() > end:
            print(f"{name} and later ones: no time was left")
            break
        count += 1
        wrong += not run(kind, name, options.size, device)
    print(*kiln.torch.report().splitlines()[:1], sep="\n")
    print(f"{'FAILED' if wrong else 'passed'}: {wrong} of {count} networks differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
