# SPDX-License-Identifier: MIT
"""Describes PyTorch's convolutions as problems of kiln. Does not need PyTorch."""
from dataclasses import dataclass
from typing import Any, Dict, Sequence, Tuple

from ..enums import DataType, Direction, Layout
from ..problem import Problem

Sizes = Tuple[int, ...]

TYPES: Dict[str, DataType] = {"torch.float32": DataType.FLOAT32,
                              "torch.float16": DataType.FLOAT16,
                              "torch.bfloat16": DataType.BFLOAT16}


# Below this number of channels in a group, cuDNN computes in fp32 also where TF32 is allowed.
# PyTorch's own test of groups expects that accuracy.
TF32_CHANNELS_MIN = 4


class Untranslatable(Exception):
    """kiln has no problem for this convolution; the text says why."""


@dataclass(frozen=True)
class Geometry:
    """The arguments of aten::convolution that are the same in all directions."""

    stride: Sizes
    padding: Sizes
    dilation: Sizes
    transposed: bool
    groups: int


@dataclass(frozen=True)
class Tensors:
    """The sizes of kiln's x, w and y. For a transposed convolution, x is PyTorch's output."""

    x: Sizes
    w: Sizes
    y: Sizes


def rest_of(stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
            transposed: bool, output_padding: Sequence[int], groups: int) -> Tuple[Any, ...]:
    """Returns the arguments of aten::convolution that are not tensors, as a key."""
    return (tuple(stride), tuple(padding), tuple(dilation), transposed, tuple(output_padding),
            groups)


def direction_of(result: str, transposed: bool) -> Direction:
    """Returns the direction that computes PyTorch's tensor |result|: "output", "input" or
    "weight"."""
    if result == "weight":
        return Direction.BACKWARD_WEIGHTS
    if (result == "output") != transposed:
        return Direction.FORWARD
    return Direction.BACKWARD_DATA


def _spread(values: Sizes, dimensions: int) -> Sizes:
    """Repeats a single number, which aten::convolution accepts for all dimensions."""
    return values * dimensions if len(values) == 1 else values


def _with_height(values: Sequence[int], flat: int) -> Sizes:
    """Adds the height of a 1-D convolution, which kiln computes as a 2-D one."""
    return (flat, *values) if len(values) == 1 else tuple(values)


def _check(tensors: Tensors, geometry: Geometry) -> None:
    x, w, y = tensors.x, tensors.w, tensors.y
    if len(x) not in (3, 4, 5) or not len(x) == len(w) == len(y):
        raise Untranslatable(f"tensors of {len(x)} and {len(w)} dimensions")
    if not all((*x, *w, *y)):
        raise Untranslatable("an empty tensor")
    if x[0] != y[0] or w[0] != y[1] or w[1] * geometry.groups != x[1]:
        raise Untranslatable("sizes that do not match")


def problem_of(direction: Direction, tensors: Tensors, geometry: Geometry, kind: str,
               layout: Layout, allow_tf32: bool) -> Problem:
    """Returns the problem. |kind| is the name of PyTorch's type. Raises Untranslatable, or
    InvalidError if kiln rejects the problem."""
    if kind not in TYPES:
        raise Untranslatable(f"the type {kind}")
    _check(tensors, geometry)
    dimensions = len(tensors.x) - 2
    allow_tf32 = allow_tf32 and (geometry.groups == 1 or tensors.w[1] >= TF32_CHANNELS_MIN)
    problem = Problem(
        n=tensors.x[0], c=tensors.x[1], k=tensors.w[0], input=_with_height(tensors.x[2:], 1),
        filter=_with_height(tensors.w[2:], 1),
        pad=_with_height(_spread(geometry.padding, dimensions), 0),
        stride=_with_height(_spread(geometry.stride, dimensions), 1),
        dilation=_with_height(_spread(geometry.dilation, dimensions), 1), groups=geometry.groups,
        direction=direction, type=TYPES[kind], x_layout=layout, w_layout=layout, y_layout=layout,
        allow_tf32=allow_tf32)
    problem.check()
    if problem.output != _with_height(tensors.y[2:], 1):
        raise Untranslatable("an output padding of at least the stride")
    return problem
