# SPDX-License-Identifier: MIT
"""Plans and solutions: how to solve a problem on a device."""
import ctypes
from dataclasses import dataclass
from typing import List, Optional, Tuple

from . import _abi
from ._call import Handle, call, to_bytes, to_milliseconds, to_text
from ._library import library
from .enums import PlanSource, Priority, Tier
from .kernel import Kernel, held


@dataclass(frozen=True)
class PlanObject:
    """One code object of a plan."""

    key: str
    tier: Tier
    size: int  #: bytes
    compile_ns: int
    kernel: Optional[Kernel]  #: None if the plan was requested without objects


@dataclass(frozen=True)
class PlanLaunch:
    """One launch of a kernel of a plan."""

    kernel: str  #: name of the entry point
    object: int  #: index of the launch's code object
    grid: Tuple[int, int, int]  #: work groups (blocks)
    group: Tuple[int, int, int]  #: work items (threads) in a group
    shared_bytes: int  #: dynamic shared memory (LDS) that the launch must request


@dataclass(frozen=True)
class Plan:
    """A plan: how to solve a problem, with the kernels for it.  A plain value that owns its
    kernels."""

    solver: str
    config: str  #: the solver's perf config; "" if there is nothing to tune
    source: PlanSource
    expected_ms: float  #: the recorded time of this solver and config; 0 if there is none
    toolchain: str
    toolchain_identity: str  #: for Recording.toolchain; "" if the kernels came from a package
    workspace: int  #: bytes of workspace that the launch needs
    plan_ns: int  #: nanoseconds that the daemon spent on planning
    objects: Tuple[PlanObject, ...]
    launches: Tuple[PlanLaunch, ...]


@dataclass(frozen=True)
class Solution:
    """One solver that applies to a problem, with its records."""

    solver: str
    algorithm: str  #: MIOpen's name for the solver's algorithm
    is_favoured: bool  #: likely to be the fastest when nothing was measured
    find_ms: float  #: time recorded for the solver; 0 if there is none
    config: str  #: perf config that the heuristic chooses; "" if there is nothing to tune
    workspace: int  #: bytes of workspace that |config| needs
    best_config: str  #: perf config recorded as the best; "" if none is recorded or valid
    best_ms: float  #: time measured with |best_config|; 0 if not known
    best_workspace: int
    candidates: int  #: number of points of the tuning space, valid or not
    valid: int  #: number of valid candidates
    valid_is_an_estimate: bool


def to_options(target: str, *, database_id: Optional[str], solver: Optional[str] = None,
               config: Optional[str] = None, toolchain: Optional[str], driver: Optional[str],
               heuristic: bool = False, nearest: bool = False, generic: bool = False,
               packages: bool = True, objects: bool = True,
               priority: Priority = Priority.INTERACTIVE,
               timeout: Optional[float]) -> _abi.PlanOptions:
    return _abi.PlanOptions(
        size=ctypes.sizeof(_abi.PlanOptions), target=to_bytes(target, "target"),
        database_id=to_bytes(database_id, "database_id"), solver=to_bytes(solver, "solver"),
        toolchain=to_bytes(toolchain, "toolchain"), priority=Priority(priority),
        no_objects=int(not objects), config=to_bytes(config, "config"), heuristic=int(heuristic),
        driver=to_bytes(driver, "driver"), timeout_ms=to_milliseconds(timeout),
        nearest=int(nearest), generic=int(generic), no_packages=int(not packages))


def _object(plan: int, index: int) -> PlanObject:
    lib = library()
    kernel = lib.kiln_plan_object(plan, index)
    return PlanObject(key=to_text(lib.kiln_plan_object_key(plan, index)),
                      tier=Tier(lib.kiln_plan_object_tier(plan, index)),
                      size=lib.kiln_plan_object_size(plan, index),
                      compile_ns=lib.kiln_plan_object_compile_ns(plan, index),
                      kernel=held(kernel) if kernel else None)


def _launch(plan: int, index: int) -> PlanLaunch:
    launch = _abi.PlanLaunch(size=ctypes.sizeof(_abi.PlanLaunch))
    call("kiln_plan_launch", plan, index, ctypes.byref(launch))
    grid_x, grid_y, grid_z = launch.grid
    x, y, z = launch.group
    return PlanLaunch(kernel=to_text(launch.kernel), object=launch.object,
                      grid=(grid_x, grid_y, grid_z), group=(x, y, z),
                      shared_bytes=launch.shared_bytes)


def from_pointer(plan: int) -> Plan:
    """Copies the borrowed |plan|, with new references to its kernels."""
    lib = library()
    return Plan(solver=to_text(lib.kiln_plan_solver(plan)),
                config=to_text(lib.kiln_plan_config(plan)),
                source=PlanSource(lib.kiln_plan_source(plan)),
                expected_ms=lib.kiln_plan_expected_ms(plan),
                toolchain=to_text(lib.kiln_plan_toolchain(plan)),
                toolchain_identity=to_text(lib.kiln_plan_toolchain_identity(plan)),
                workspace=lib.kiln_plan_workspace(plan), plan_ns=lib.kiln_plan_ns(plan),
                objects=tuple(_object(plan, i) for i in range(lib.kiln_plan_object_count(plan))),
                launches=tuple(_launch(plan, i) for i in range(lib.kiln_plan_launch_count(plan))))


def _solution(solutions: int, index: int) -> Solution:
    s = _abi.Solution(size=ctypes.sizeof(_abi.Solution))
    call("kiln_solutions_at", solutions, index, ctypes.byref(s))
    return Solution(solver=to_text(s.solver), algorithm=to_text(s.algorithm),
                    is_favoured=bool(s.is_favoured), find_ms=s.find_ms, config=to_text(s.config),
                    workspace=s.workspace, best_config=to_text(s.best_config), best_ms=s.best_ms,
                    best_workspace=s.best_workspace, candidates=s.candidates, valid=s.valid,
                    valid_is_an_estimate=bool(s.valid_is_an_estimate))


def from_solutions(handle: Handle) -> List[Solution]:
    count = library().kiln_solutions_count(handle.pointer)
    return [_solution(handle.pointer, i) for i in range(count)]
