# SPDX-License-Identifier: MIT
"""A job in Python: requests a plan with its code objects, and a kernel that is compiled from the
job's source.

Usage, with python3-kiln installed: job.py TARGET. Prints the path of the imported package.
"""
import sys

import kiln

SOURCE = 'extern "C" __global__ void scale(float *p) { p[threadIdx.x] *= 2; }'
ELF = b"\x7fELF"


def main(target: str) -> int:
    try:
        with kiln.Client() as client:
            problem = kiln.Problem(n=1, c=64, k=64, input=(28, 28), filter=3, pad=1)
            plan = client.plan(problem, target)
            for made in plan.objects:
                assert made.kernel and bytes(made.kernel.data[:4]) == ELF, plan.solver
            source = kiln.KernelSource(target=target, program="scale.cpp", options="-O3",
                                       source=SOURCE)
            with client.fetch_source(source) as kernel:
                assert bytes(kernel.data[:4]) == ELF, kernel.key
    except kiln.KilnError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(kiln.__file__)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
