# SPDX-License-Identifier: MIT
"""Chooses whether kiln or PyTorch runs a convolution of a job, by timing both once."""
import enum
import math
import threading
from typing import Any, Callable, ContextManager, List, Optional, Protocol, Tuple, Union

import torch

from .._call import Handle
from .._run import Run, names_of_plan
from ..enums import Direction, Layout
from ..errors import CorruptError, InvalidError, UnsupportedError
from ..problem import Problem
from ._native import NativeChoice, Work
from ._records import Record
from ._tensors import (layout_of, memory_format, norm_of, random_like, strides_of_copy,
                       without_memory)
from ._translate import Geometry, Tensors, direction_of, problem_of

FASTER = 0.97  # kiln is chosen if its time is at most this part of PyTorch's time
# Two results agree if the norm of their difference is at most this part of the norm of PyTorch's
# result.
TOLERANCE = {"torch.float32": 1e-3, "torch.float16": 5e-3, "torch.bfloat16": 2e-2}
TOLERANCE_TF32 = 5e-3
# In addition, an element may differ by at most TOLERANCE times its own size, plus ELEMENT times the
# root mean square of the result. Elements are compared because a wrong tile hardly changes the norm
# of a large result.
ELEMENT = {"torch.float32": 1e-2, "torch.float16": 1e-1, "torch.bfloat16": 1e-1}
ELEMENT_TF32 = 1e-1
# How long PyTorch's search for the fastest algorithm takes for one convolution, in benchmark mode.
# Measured on an H200: 0.07 to 0.38 s.
SEARCH_US = 1e5
TRIALS_MAX = 8  # if so many comparisons cannot be made, the choice is PyTorch


class State(enum.Enum):
    NEW = "not planned yet"
    ASKED = "waits for kilnd's plan"
    PLANNED = "planned, not timed yet"
    KILN = "kiln"
    POSTPONED = "kiln for now"  # PyTorch is faster, but would have to search first
    ORIGINAL = "PyTorch"


# A problem, and the function that the planner calls with the plan or the error.
Request = Tuple[Problem, Callable[[Union[Handle, Exception]], None]]


class Accelerator(Protocol):
    """What a choice needs from the device's framework and from kilnd. Tests have a fake one."""

    def ask(self, index: int, requests: List[Request], packages: bool = True) -> None:
        """Requests plans, and returns at once. Without |packages|, the plans have no kernels of
        packages."""

    def leave_packages(self, index: int) -> None:
        """Lets later requests use no kernels of packages."""

    def load(self, index: int, plan: Handle) -> Run:
        ...

    def stream(self, index: int) -> int:
        """Returns the pointer of the current stream, which is 0 for the default stream."""

    def on_device(self, index: Optional[int]) -> ContextManager[Any]:
        """Returns a context in which the device is the current one."""

    def native_functions(self) -> Tuple[Optional[int], Optional[int]]:
        """Returns the addresses of the functions with which the C operators launch and find the
        current stream. See Native."""

    def is_capturing(self) -> bool:
        """Returns whether the current stream is captured into a graph."""

    def recall(self, index: int, key: str) -> Optional[Record]:
        """Returns what an earlier process chose, or None."""

    def record(self, index: int, key: str, record: Record) -> None:
        """Keeps a choice for later processes."""

    def times(self, index: int, first: Callable[[], Any],
              second: Callable[[], Any]) -> Tuple[float, float]:
        """Returns the device's time of each call, in microseconds."""


class Choice:
    """One convolution of the job in one direction: sizes, layouts, type and flags.

    PyTorch's own implementation ("the original") computes the convolution until kilnd's plan
    has arrived. The next call then compares the results of kiln and the original, times both, and
    chooses. Later processes take over the choice if kilnd has the same plan. If the original is
    faster but would search for its fastest algorithm first, they postpone the search.
    """

    __slots__ = ("key", "flags", "shape", "result", "kind", "state", "reason", "problem",
                 "original_us", "kiln_us", "python_calls", "solver", "native",
                 "_accelerator", "_index", "_geometry", "_allow_tf32", "_plan", "_run", "_format",
                 "_copies", "_shape", "_strides", "_dtype", "_device", "_direction", "_order",
                 "_trials", "_layout", "_recorded", "_answered", "_lock", "_is_prepared",
                 "_is_refused", "_lost_us", "_like", "_space_like")

    def __init__(self, accelerator: Accelerator, key: str, result: str, geometry: Geometry,
                 dtype: torch.dtype, device: torch.device, allow_tf32: bool) -> None:
        """|key| is the same in every process."""
        self.key = key
        self.flags: Tuple[bool, ...] = ()  #: of aten::_convolution; set by Operators
        self.shape: Optional[Tuple[int, ...]] = None  #: of a gradient; set by Operators
        self.result = result
        self.kind = str(dtype)
        self.state = State.NEW
        self.reason = ""
        self.problem: Optional[Problem] = None
        self.original_us = self.kiln_us = 0.0
        self.python_calls = [0, 0]  #: of kiln and of the original; the C operators count theirs
        self.native: Optional[NativeChoice] = None  #: set as soon as the C operators run calls
        self.solver = ""
        self._accelerator = accelerator
        self._index: int = -1 if device.index is None else device.index
        self._geometry = geometry
        self._allow_tf32 = allow_tf32 and dtype == torch.float32
        self._plan: Optional[Handle] = None
        self._run: Optional[Run] = None
        # PyTorch makes a tensor like another one, without memory, faster than from a size.
        self._like: torch.Tensor
        self._space_like: Optional[torch.Tensor] = None
        self._dtype = dtype
        self._device = device
        self._direction = direction_of(result, geometry.transposed)
        self._order = _order_of(self._direction, geometry.transposed)
        self._trials = 0
        self._recorded: Optional[Record] = None
        self._answered = threading.Event()
        self._lock = threading.Lock()  # held by the thread that plans or times
        self._lost_us = 0.0  # time that kiln took beyond the original's while POSTPONED
        self._is_refused = False  # the driver refused a plan, whose kernels may be of a package
        self._is_prepared = False  # if true, the planner's thread loads the kernels

    # ---- the job's calls ----

    def _calls(self, index: int) -> int:
        native = self.native
        return self.python_calls[index] + (0 if native is None else native.counts()[index])

    @property
    def kiln_calls(self) -> int:
        return self._calls(0)

    @property
    def original_calls(self) -> int:
        return self._calls(1)

    def compute(self, first: torch.Tensor, second: torch.Tensor,
                is_trial: bool = False) -> torch.Tensor:
        """Runs kiln on the operands, which are PyTorch's tensors in the order output, input,
        weight, without the one that is computed. In a trial, the memory of the result and the
        workspace is filled with NaNs first, so that an earlier result in this memory cannot pass
        for kiln's result."""
        if any(self._copies):
            first = first.contiguous(memory_format=self._format)
            second = second.contiguous(memory_format=self._format)
        made = torch.empty_like(self._like, device=self._device)
        space, place = None, 0
        if self._space_like is not None:
            space = torch.empty_like(self._space_like, device=self._device)
            place = space.data_ptr()
        if is_trial:
            made.fill_(math.nan)
            if space is not None:
                space.fill_(0xff)  # a NaN in every type
        pointers = (first.data_ptr(), second.data_ptr(), made.data_ptr())
        x, w, y = self._order
        self._run.launch(pointers[x], pointers[w], pointers[y],  # type: ignore[union-attr]
                         place, self._accelerator.stream(self._index))
        return made

    def settle(self, reason: str) -> None:
        """Leaves this convolution to the original for good. The run stays loaded, because launched
        work or a graph may need its code."""
        self.reason = reason
        self.state = State.ORIGINAL
        self._plan = None
        if self.native is not None:
            self.native.leave()

    def postpones(self) -> bool:
        """Returns whether kiln runs this call of a POSTPONED convolution. Otherwise, the original
        searches in this call and runs all further ones: as soon as kiln's calls have lost as much
        time as the search takes, and on streams other than the default one, because programs warm
        up there for the capture of a graph. During a capture, the original cannot search."""
        if self._accelerator.is_capturing():
            return True
        self._lost_us += self.kiln_us - self.original_us
        if self._lost() <= SEARCH_US and not self._accelerator.stream(self._index):
            return True
        self.settle(self.reason)
        return False

    def _lost(self) -> float:
        """Returns the time that all calls of a POSTPONED convolution have lost."""
        if self.native is None:
            return self._lost_us
        return self._lost_us + self.native.counts()[0] * (self.kiln_us - self.original_us)

    # ---- what the C operators need ----

    def is_original(self) -> bool:
        return self.state is State.ORIGINAL

    def is_decided(self) -> bool:
        """Returns whether the C operators can run further calls."""
        if self.state is State.POSTPONED:
            return math.isfinite(self.kiln_us - self.original_us)
        return self.is_original() or self.state is State.KILN

    def work(self) -> Optional[Work]:
        """Returns how kiln computes a decided convolution, or None for the original."""
        run = self._run
        if run is None or self.is_original():
            return None
        return Work(run=run.pointer, workspace=run.workspace, order=self._order,
                    shape=self._shape, strides=self._strides, copies=self._copies,
                    calls_max=self._calls_max())

    def _calls_max(self) -> int:
        """Returns how many calls of a POSTPONED convolution kiln may run after the current one,
        before postpones() decides; or -1 for a convolution that is not POSTPONED."""
        if self.state is not State.POSTPONED:
            return -1
        lost_us = self.kiln_us - self.original_us
        if lost_us < 1e-9:
            return 1 << 62
        return max(0, int((SEARCH_US - self._lost()) / lost_us) - 1)

    def learn(self, made: torch.Tensor, operands: Tuple[torch.Tensor, torch.Tensor],
              original: Callable[[], torch.Tensor], kiln: Callable[[], torch.Tensor],
              reference: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """Makes the next step towards a choice, after the original has computed |made|. |original|
        and |kiln| compute the same result again. |reference| is the original for any operands,
        without a bias. Returns the result: kiln's if kiln was chosen, so that this call and the
        next one do not differ; else |made|."""
        if self.state is State.ASKED or self._accelerator.is_capturing() \
                or not self._lock.acquire(blocking=False):
            return made
        try:
            if self.state is State.NEW:
                self._ask(made, operands)
            elif self.state is State.PLANNED:
                slower = self._why_slower()
                if slower:  # the plan came late, so the original has searched already
                    self.settle(slower)
                    return made
                if made.stride() != self._strides and not self._corrects(made, operands):
                    return made
                if not self._load():
                    return made
                # Compares without the bias, because a large bias would hide that the sums differ.
                if self._agrees(operands, reference) and self._decide(original, kiln):
                    made = kiln()
        except Exception as error:
            self.settle(str(error) or repr(error))
        finally:
            self._lock.release()
        return made

    # ---- planning ----

    def _corrects(self, made: torch.Tensor, operands: Tuple[torch.Tensor, torch.Tensor]) -> bool:
        """Describes the result with the strides that it has, where prepare() assumed others.
        Returns False if that makes another problem, whose plan is then requested."""
        assumed = self.problem
        self._describe(layout_of([made, *operands]), tuple(made.shape), made.stride(), operands)
        if self.problem == assumed:
            return True
        self._plan = self._run = self._space_like = None
        self._accelerator.ask(self._index, [self._request()])
        return False

    def _sizes(self, shape: Tuple[int, ...],
               operands: Tuple[torch.Tensor, torch.Tensor]) -> Tensors:
        shapes = [tuple(operand.shape) for operand in operands]
        shapes.insert(("output", "input", "weight").index(self.result), shape)
        output, input_, weight = shapes
        if self._geometry.transposed:
            return Tensors(x=output, w=weight, y=input_)
        return Tensors(x=input_, w=weight, y=output)

    def _ask(self, made: torch.Tensor, operands: Tuple[torch.Tensor, torch.Tensor]) -> None:
        self._describe(layout_of([made, *operands]), tuple(made.shape), made.stride(), operands)
        self._accelerator.ask(self._index, [self._request()])

    def _request(self) -> Request:
        assert self.problem is not None
        self.state = State.ASKED
        return self.problem, self._planned

    def prepare(self, made: torch.Tensor,
                operands: Tuple[torch.Tensor, torch.Tensor]) -> Optional[Request]:
        """Returns the request for the plan, or None if kiln cannot run this convolution. Needs only
        the sizes and strides of the tensors. The planner's thread will load the kernels."""
        self._is_prepared = True
        try:
            if self._find_record(operands) is None:
                self._describe(layout_of([made, *operands]), tuple(made.shape), made.stride(),
                               operands)
            return self._request()
        except Exception as error:
            self.settle(str(error))
            return None

    def _describe(self, layout: Layout, shape: Tuple[int, ...], strides: Tuple[int, ...],
                  operands: Tuple[torch.Tensor, torch.Tensor]) -> None:
        """Describes the result and the problem."""
        self._layout = layout
        self._format = memory_format(layout, len(shape))
        self._copies = [strides_of_copy(operand, self._format) for operand in operands]
        self._shape, self._strides = shape, strides
        problem = problem_of(self._direction, self._sizes(shape, operands), self._geometry,
                             self.kind, layout, self._allow_tf32)
        self._like = without_memory(shape, strides, self._dtype, self._device)
        if not self._like.is_contiguous(memory_format=self._format):  # kiln writes all elements
            raise ValueError(f"the result's strides are {strides}")
        self.problem = problem

    def _planned(self, answer: Union[Handle, Exception]) -> None:
        try:
            if isinstance(answer, Exception):
                self.settle(str(answer))
            else:
                self._plan = answer
                self._use_plan()
        except Exception as error:  # the planner has other requests to answer
            self.settle(repr(error))
        self._answered.set()

    def _use_plan(self) -> None:
        """Takes the plan. Loads the kernels of a prepared convolution, for which the choice of an
        earlier process then counts from now on."""
        slower = self._why_slower()
        if slower and not self._searches():
            self.settle(slower)
        elif not self._is_prepared:
            self.state = State.PLANNED
        elif self._load() and not self._take_over():
            self.state = State.PLANNED

    # ---- records of earlier processes ----

    def _find_record(self, operands: Tuple[torch.Tensor, torch.Tensor]) -> Optional[Record]:
        """Returns the record of an earlier process, or None if there is none that fits. Describes
        the problem as the record does."""
        recorded = self._accelerator.recall(self._index, self.key)
        if recorded is None or self.shape not in (None, recorded.shape):
            return None
        layout = Layout.CHANNELS_LAST if recorded.last else Layout.CHANNELS_FIRST
        try:
            self._describe(layout, recorded.shape, recorded.strides, operands)
        except Exception:  # a damaged record; this process compares and times again
            return None
        self._recorded = recorded
        self.original_us, self.kiln_us = recorded.original_us, recorded.kiln_us
        return recorded

    def recall(self, operands: Tuple[torch.Tensor, torch.Tensor], wait_s: float) -> bool:
        """Takes over the choice of an earlier process. Waits up to |wait_s| seconds for the plan,
        unless the original runs this call anyway. If kilnd has another plan now, this process
        compares and times again. Returns False if the plan did not arrive in time, so that the next
        wait may be in vain."""
        if self._accelerator.is_capturing():
            return True
        recorded = self._find_record(operands)
        if recorded is None:
            return True
        self._accelerator.ask(self._index, [self._request()])
        if not recorded.kiln and not self._searches():
            return True
        is_there = self._answered.wait(wait_s)
        # Takes the plan only after the answer, because until then the planner's thread may be about
        # to use it.
        if is_there and self._plan is not None:
            self._take_over()
        return is_there

    def _searches(self) -> bool:
        """Returns whether the original's first call searches for the fastest algorithm."""
        return self.flags[0]

    def _timed(self) -> Optional[Record]:
        """Returns the record if an earlier process timed the plan that kilnd has now."""
        recorded, plan = self._recorded, self._plan
        if recorded is None or plan is None:
            return None
        names = (recorded.solver, recorded.config, recorded.code)
        return recorded if names == names_of_plan(plan) else None

    def _why_slower(self) -> str:
        """Returns why an earlier process chose the original, or "" if it did not."""
        timed = self._timed()
        return "" if timed is None or timed.kiln else timed.reason

    def _take_over(self) -> bool:
        """Takes over the recorded choice. Returns False if kilnd has another plan, or if the driver
        refuses this one."""
        timed = self._timed()
        if timed is None or not self._load():
            return False
        self._plan = None
        self.reason = timed.reason
        self.state = State.KILN if timed.kiln else State.POSTPONED
        return True

    def _record(self) -> None:
        run = self._run
        if run is None:
            return
        is_kiln = self.state is State.KILN
        self._accelerator.record(self._index, self.key, Record(
            kiln=is_kiln, reason=self.reason, solver=run.solver, config=run.config, code=run.code,
            kiln_us=self.kiln_us, original_us=self.original_us, shape=self._shape,
            strides=self._strides, last=self._layout is Layout.CHANNELS_LAST))

    # ---- choosing ----

    def _load(self) -> bool:
        """Loads the plan's kernels. If the driver refuses them, they may be of a package. Then
        requests the plan without kernels of packages, and returns False."""
        if self._run is not None:
            return True
        assert self._plan is not None
        try:
            run = self._accelerator.load(self._index, self._plan)
        except (CorruptError, UnsupportedError):
            if self._is_refused:
                raise
            self._is_refused, self._plan = True, None
            self._accelerator.ask(self._index, [self._request()], packages=False)
            return False
        if self._is_refused:  # and the driver loads what kilnd compiles
            self._accelerator.leave_packages(self._index)
        if run.workspace:
            self._space_like = without_memory((run.workspace,), (1,), torch.uint8, self._device)
        self._run, self.solver = run, run.solver
        return True

    def _agrees(self, operands: Tuple[torch.Tensor, torch.Tensor],
                reference: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> bool:
        """Returns whether kiln's result agrees with that of the original. If the results differ,
        PyTorch keeps the convolution. If they cannot be compared, a later call tries again."""
        wanted = reference(*operands)
        norm = norm_of(wanted)
        if not 0 < norm < math.inf:  # such as gradients that are too small for fp16
            operands = random_like(operands)
            wanted = reference(*operands)
            norm = norm_of(wanted)
        if not 0 < norm < math.inf:
            self._postpone("the results were zero or not finite, so they could not be compared")
            return False
        try:
            made = self.compute(*operands, is_trial=True)
        except InvalidError as error:  # this call's memory is unsuitable, such as a view
            self._postpone(str(error))
            return False
        reason = self._difference(made, wanted, norm)
        if reason:
            self.settle(reason)
        return not reason

    def _difference(self, made: torch.Tensor, wanted: torch.Tensor, norm: float) -> str:
        """Returns how |made| differs from |wanted|, or "" if the difference is within the
        tolerances. Overwrites |made|."""
        allow_tf32 = self.problem is not None and self.problem.allow_tf32
        limit = TOLERANCE_TF32 if allow_tf32 else TOLERANCE[self.kind]
        part = ELEMENT_TF32 if allow_tf32 else ELEMENT[self.kind]
        sizes = wanted.float()
        difference = made.float().sub_(sizes)
        ratio = norm_of(difference) / norm
        if not ratio <= limit:  # a NaN is a difference, too
            return f"the results differ by {ratio:.2g}, more than {limit:g}"
        mean = norm / math.sqrt(wanted.numel())
        excess = float(difference.abs_().sub_(sizes.abs(), alpha=limit).max()) / mean
        if not excess <= part:
            return (f"an element differs by {excess:.2g} of the root mean square, more than "
                    f"{part:g}")
        return ""

    def _postpone(self, reason: str) -> None:
        self._trials += 1
        if self._trials == TRIALS_MAX:
            self.settle(reason)

    def _decide(self, original: Callable[[], torch.Tensor],
                kiln: Callable[[], torch.Tensor]) -> bool:
        """Times both, and chooses. Returns whether kiln was chosen."""
        self.original_us, self.kiln_us = self._accelerator.times(self._index, original, kiln)
        is_kiln = self.kiln_us <= FASTER * self.original_us
        if is_kiln:
            self.state = State.KILN
        else:
            self.settle("slower" if self.kiln_us > self.original_us else "not faster by 3 %")
        self._plan = None
        self._record()
        if not is_kiln:
            self._run = None
        return is_kiln


def _order_of(direction: Direction, transposed: bool) -> Tuple[int, int, int]:
    """Returns the positions of kiln's x, w and y in (first operand, second operand, result)."""
    if direction is Direction.BACKWARD_WEIGHTS:  # the operands are output and input
        return (0, 2, 1) if transposed else (1, 2, 0)
    if direction is Direction.FORWARD:  # the operands are x and w
        return (0, 1, 2)
    return (2, 1, 0)  # y and w
