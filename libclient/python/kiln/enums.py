# SPDX-License-Identifier: MIT
"""The numbers of libkiln's headers by name."""
from enum import IntEnum


class ErrorCode(IntEnum):
    """KILN_E_*: what went wrong, for programs."""

    OK = 0
    NOT_FOUND = 1
    INVALID = 2
    DENIED = 3
    FULL = 4
    BUSY = 5
    CORRUPT = 6
    UNAVAILABLE = 7
    GPU_FAULT = 8
    IO = 9
    NO_MEMORY = 10
    CANCELLED = 11
    TIMED_OUT = 12
    COMPILE_FAILED = 13
    UNSUPPORTED = 14


class Level(IntEnum):
    """KILN_LEVEL_*: what serves the client."""

    NONE = 0
    DAEMON = 1
    EMBEDDED = 2
    PRIVATE = 3


class Role(IntEnum):
    """What the daemon allows this user to do."""

    USE = 0
    PUBLISH = 1
    ADMIN = 2


class Tier(IntEnum):
    """KILN_TIER_*: where a kernel came from."""

    NONE = 0
    HOT = 1
    DISK = 2
    PACKAGE = 3
    FLEET = 4
    COMPILED = 5
    PROCESS = 6


class Priority(IntEnum):
    """Interactive requests are compiled before those of a prefetch."""

    INTERACTIVE = 0
    PREFETCH = 1


class Direction(IntEnum):
    """The direction: which tensor is computed (y, x or w)."""

    FORWARD = 0
    BACKWARD_DATA = 1
    BACKWARD_WEIGHTS = 2


class Layout(IntEnum):
    """The layout: NC[D]HW or N[D]HWC."""

    CHANNELS_FIRST = 0
    CHANNELS_LAST = 1


class DataType(IntEnum):
    """The type in which x, w and y are stored."""

    FLOAT32 = 0
    FLOAT16 = 1
    BFLOAT16 = 2
    INT8 = 3


class Tensor(IntEnum):
    """KILN_TENSOR_*."""

    X = 0
    W = 1
    Y = 2


class PlanSource(IntEnum):
    """KILN_PLAN_*: what determined a plan's solver and perf config."""

    FORCED = 0
    PERF = 1
    FIND = 2
    HEURISTIC = 3
    NEAREST = 4
    GENERIC = 5


class TuningTier(IntEnum):
    """KILN_TUNING_*: the tier of a tuning record."""

    SYSTEM = 1
    HOST = 2
    USER = 3
