# SPDX-License-Identifier: MIT
"""Waits until kilnd's plans for the targets come from a package of generic kernels, or are refused.
Usage: generic_plans.py generic|refused TARGET..."""
import sys
import time

import kiln

PROBLEM = ("conv{} -n 32 -c 64 -H 56 -W 56 -k 128 -y 3 -x 3 -p 1 -q 1 -F {} --in_layout {}"
           " --out_layout {} --fil_layout {}")


def problems():
    """Returns a problem of each direction, in two types."""
    lines = [PROBLEM.format(name, direction, layout, layout, layout)
             for name, layout in (("", "NCHW"), ("fp16", "NHWC")) for direction in (1, 2, 4)]
    return [kiln.Problem.from_driver(line)[0] for line in lines]


def outcome(client, problem, target):
    """Returns what kilnd answers: 'generic', 'refused' or another source."""
    try:
        plan = client.plan(problem, target, generic=True)
    except (kiln.UnavailableError, kiln.UnsupportedError):
        return "refused"
    if any(o.tier != kiln.Tier.PACKAGE or not o.size for o in plan.objects):
        return "kernels that are not from a package"
    return plan.source.name.lower()


def main():
    wanted, targets = sys.argv[1], sys.argv[2:]
    with kiln.Client() as client:
        for target in targets:
            for problem in problems():
                end = time.monotonic() + 60
                while (found := outcome(client, problem, target)) != wanted:
                    if time.monotonic() > end:
                        sys.exit(f"{target}: plans are {found}, not {wanted}")
                    time.sleep(0.2)


main()
