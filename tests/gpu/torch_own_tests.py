#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs PyTorch's own tests of convolutions with and without kiln.torch (docs/pytorch.md).

Usage: tests/gpu/torch_own_tests.py FILE [OPTION]...

FILE is test/nn/test_convolution.py from the source of the installed PyTorch. Each test runs once
without kiln, then once in each round with kiln, in one process. kiln runs every convolution that it
can do, also those at which it is slower. KILN_SOCKET names a kilnd, KILN_LIBRARY_PATH libkiln, and
XDG_CACHE_HOME an empty directory. Without a GPU, the tests for the CPU run, and a fake accelerator
(tests/python/test_torch.py) stands for kilnd and kiln's kernels; KILN_BUILD names the build
directory then.

  --rounds N     with kiln (3): in the first one, plans are requested, in the second one, results
                 are compared
  --match REGEX  runs only tests whose name matches
  --part I/N     runs only every Nth test, from the Ith on, so that N processes can share the tests

Exit status: 0 every test that passed without kiln passed in each round; 1 a test did not; 77 there
is no PyTorch, or a module that FILE needs is missing, such as expecttest.
"""
import argparse
import collections
import importlib
import math
import pathlib
import re
import sys
import time
import unittest

EXIT_SKIPPED = 77
SLOWEST = 5  # number of slow tests that each round names


def install_fake():
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))
    import kiln.torch
    import test_torch
    from kiln.torch import _choice, _operators
    fake = test_torch.FakeAccelerator()
    fake.answers_at_once = True
    fake.operators = kiln.torch._replaced = _operators.make_operators(fake, "CPU")
    _choice.names_of_plan = lambda plan: ("FakeSolver", "1", "code")


def install():
    import kiln.torch
    kiln.torch.install()


def load(file):
    """Returns the module with PyTorch's tests, or None if a module that they need is missing."""
    sys.path.insert(0, str(file.parent))
    try:
        return importlib.import_module(file.stem)
    except ModuleNotFoundError as error:
        if error.name == file.stem:
            raise
        print(f"skipped: {file} needs the Python module '{error.name}'")
        return None


def tests_of(module, device, options):
    """Returns the tests for the device, and those that have no device in their name."""
    def flatten(suite):
        for test in suite:
            if isinstance(test, unittest.TestSuite):
                yield from flatten(test)
            else:
                yield test

    others = {"CPU", "CUDA", "META"} - {device}
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    tests = [test for test in flatten(suite) if re.search(options.match, test.id())
             and not any(type(test).__name__.endswith(other) for other in others)]
    first, parts = map(int, options.part.split("/"))
    return tests[first - 1::parts]


def outcome_of(test):
    result = unittest.TestResult()
    test.run(result)
    for kind in ("errors", "failures", "unexpectedSuccesses", "skipped", "expectedFailures"):
        if getattr(result, kind):
            lines = str(getattr(result, kind)[0][-1]).strip().splitlines()
            return kind, [line for line in lines if "difference:" in line] or lines[-1:]
    return "passed", []


def run_round(name, module, device, options):
    outcomes, seconds = {}, {}
    for test in tests_of(module, device, options):
        begin = time.monotonic()
        outcomes[test.id()] = outcome_of(test)
        seconds[test.id()] = time.monotonic() - begin
    slowest = sorted(seconds, key=seconds.get, reverse=True)[:SLOWEST]
    counts = collections.Counter(kind for kind, _ in outcomes.values())
    print(f"{name}: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) +
          f"; {sum(seconds.values()):.0f} s; slowest: " +
          ", ".join(f"{test.rsplit('.', 1)[-1]} {seconds[test]:.1f} s" for test in slowest),
          flush=True)
    return outcomes


def print_worse(name, plain, made):
    """Prints the tests that passed without kiln only, and returns their number."""
    worse = [test for test, (kind, _) in plain.items()
             if kind == "passed" and made[test][0] != "passed"]
    for test in worse:
        kind, text = made[test]
        print(f"{name}: {kind}: {test} {' '.join(text)}")
    return len(worse)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--match", default="")
    parser.add_argument("--part", default="1/1")
    return parser.parse_args()


def main():
    options = parse()
    try:
        import torch
    except ImportError:
        print("skipped: there is no PyTorch")
        return EXIT_SKIPPED
    module = load(options.file)
    if module is None:
        return EXIT_SKIPPED
    import kiln.torch
    from kiln.torch import _choice
    device = "CUDA" if torch.cuda.is_available() else "CPU"
    plain = run_round("without kiln", module, device, options)
    _choice.FASTER = math.inf
    install() if device == "CUDA" else install_fake()
    worse = 0
    for number in range(options.rounds):
        name = f"with kiln, round {number + 1}"
        kiln.torch.install() if device == "CUDA" else kiln.torch._replaced.start()
        made = run_round(name, module, device, options)
        worse += print_worse(name, plain, made)
        kiln.torch.wait(300)
    report = kiln.torch.report().splitlines()
    print(report[0], *(line for line in report if line.startswith(("  operators:", "  error:"))),
          sep="\n")
    print(f"{'FAILED' if worse else 'passed'}: {worse} tests are worse with kiln")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
