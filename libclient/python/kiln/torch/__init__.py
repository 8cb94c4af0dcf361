# SPDX-License-Identifier: MIT
"""Runs the convolutions of a PyTorch job by kiln, where kiln is faster.

    import kiln.torch
    kiln.torch.install()

Everything else stays with PyTorch. docs/pytorch.md says what runs where, and how to see it.
"""
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, List, Optional, Union

from .._library import library
from ..client import Client
from ..errors import KilnError
from ._planner import Planner

if TYPE_CHECKING:  # these need PyTorch, which install() imports
    from ._choice import Choice
    from ._operators import Operators

__all__ = ["Convolution", "convolutions", "install", "prepare", "report", "uninstall", "wait"]


@dataclass(frozen=True)
class Convolution:
    """One convolution of the job in one direction, and what runs it."""

    result: str  #: what is computed: "output", or the gradient of "input" or "weight"
    type: str  #: such as "torch.float16"
    problem: str  #: MIOpenDriver's command line; "" if kiln has no such problem
    #: "kiln", "PyTorch", "kiln for now" (PyTorch is faster, but would have to search for its
    #: fastest algorithm first), or why neither is chosen yet
    runs_by: str
    reason: str  #: why PyTorch runs the convolution, or is faster; "" otherwise
    solver: str  #: kiln's solver; "" if there was no plan
    kiln_us: float  #: GPU time of kiln's kernels in microseconds; 0 if not timed
    original_us: float
    kiln_calls: int
    original_calls: int


_lock = threading.Lock()
_replaced: "Optional[Operators]" = None
_plans: Optional[Planner] = None


def install(socket_path: Union[str, "os.PathLike[str]", None] = None) -> None:
    """From now on, kiln runs this process's convolutions on CUDA and ROCm devices where it is
    faster. |socket_path| names kilnd's socket; see Client.

    Raises LibraryError if libkiln is absent, ImportError if PyTorch is, and RuntimeError if
    PyTorch was built for the CPU only. Later, an error in kiln fails no convolution: PyTorch runs
    that convolution. Calling install() again changes nothing.
    """
    global _replaced, _plans
    from ._cuda import Cuda
    from ._operators import make_operators

    library()
    with _lock:
        if _replaced is None:
            planner = Planner(lambda: Client(socket_path, name="kiln.torch"))
            _replaced = make_operators(Cuda(planner), "CUDA")
            _plans = planner
        _replaced.start()


def uninstall() -> None:
    """From now on, PyTorch runs all convolutions, without overhead from kiln. No other thread may
    run a convolution meanwhile. The choices between kiln and PyTorch stay for the next
    install()."""
    with _lock:
        if _replaced is not None:
            _replaced.stop()


def prepare(model: Any, example: Any) -> int:
    """Requests the plans of all convolutions in a step of |model|, forward and backward, in one
    batch, and returns at once. The kernels of each plan are loaded when the plan arrives. |example|
    is the model's argument, or a tuple of its arguments.

    The model runs once with tensors that have no memory: nothing is computed, and its parameters
    and buffers do not change. If the model fails, because it cannot run in this way, the plans of
    the convolutions before that point are requested, and report() says why. Set autocast and the
    flags of cuDNN as in the step. |model| may also be what torch.compile, torch.export,
    torch.jit.script or DistributedDataParallel returns.

    Returns the number of convolutions. Raises RuntimeError before install(), and ValueError if the
    model is not on a GPU.
    """
    if _replaced is None:
        raise RuntimeError("call kiln.torch.install() before kiln.torch.prepare()")
    return _replaced.prepare(model, example if isinstance(example, tuple) else (example,))


def wait(timeout: Optional[float] = None) -> bool:
    """Waits until kilnd has answered every request for a plan. Returns False after |timeout|
    seconds."""
    return _plans is None or _plans.wait(timeout)


def convolutions() -> List[Convolution]:
    """Returns every convolution that the job has called since install()."""
    return [] if _replaced is None else [_describe(c) for c in list(_replaced.choices.values())]


def _describe(choice: "Choice") -> Convolution:
    line = ""
    if choice.problem is not None:
        try:
            line = choice.problem.to_driver()
        except KilnError:
            line = repr(choice.problem)
    return Convolution(
        result=choice.result, type=choice.kind, problem=line, runs_by=choice.state.value,
        reason=choice.reason, solver=choice.solver, kiln_us=choice.kiln_us,
        original_us=choice.original_us, kiln_calls=choice.kiln_calls,
        original_calls=choice.original_calls)


def report() -> str:
    """Returns a text that says for each convolution of the job what runs it, and why."""
    if _replaced is None:
        return "kiln.torch is not installed: PyTorch runs all convolutions"
    known = convolutions()
    by_kiln = sum(c.runs_by == "kiln" for c in known)
    for_now = sum(c.runs_by == "kiln for now" for c in known)
    kiln_calls = sum(c.kiln_calls for c in known)
    lines = [f"kiln.torch: kiln runs {by_kiln} of {len(known)} convolutions"
             f"{f' and {for_now} for now' if for_now else ''}, {kiln_calls} of "
             f"{kiln_calls + sum(c.original_calls for c in known)} calls"]
    if not known:
        lines.append("  no convolution has run on a GPU since install()")
    for c in sorted(known, key=lambda c: (c.runs_by, c.reason, -c.original_us)):
        times = f"{c.kiln_us:.1f} us by kiln, {c.original_us:.1f} us by PyTorch" \
            if c.kiln_us else "not timed"
        lines.append(f"  {c.runs_by:12} {c.result:6} {times}  {c.reason or c.solver}  "
                     f"[{c.type.replace('torch.', '')}] {c.problem}")
    lines.append(f"  operators: {_replaced.language}")
    return "\n".join(lines + [f"  error: {error}" for error in _replaced.errors])
