# SPDX-License-Identifier: MIT
"""Convolutions, made from keyword arguments or from MIOpenDriver's command lines."""
import ctypes
from dataclasses import dataclass
from enum import IntEnum
from typing import List, Sequence, SupportsIndex, Tuple, Type, TypeVar, Union

from . import _abi
from ._call import call, to_bytes, to_text, to_uint32
from .enums import DataType, Direction, Layout, Tensor
from .errors import invalid

Extent = Union[SupportsIndex, Sequence[int]]
E = TypeVar("E", bound=IntEnum)

_LINE_MAX = 1024  # libkiln's longest line for a problem has about 300 bytes


def _extent(value: Extent, dimensions: int, what: str) -> Tuple[int, ...]:
    """Returns one number for each dimension; a single number stands for all dimensions."""
    if isinstance(value, SupportsIndex):
        return (to_uint32(value, what),) * dimensions
    numbers = tuple(value)
    if len(numbers) != dimensions:
        raise invalid(f"{what} is {numbers}: the problem has {dimensions} dimensions, as its input")
    return tuple(to_uint32(number, what) for number in numbers)


def _member(kind: Type[E], value: int, what: str) -> E:
    try:
        return kind(value)
    except ValueError:
        raise invalid(f"{what} is not a valid {kind.__name__}: {value!r}") from None


@dataclass(frozen=True, init=False)
class Problem:
    """One convolution.  In every direction, tensors have the names that they have in the forward
    direction:

    x  n, c, [d,] h, w        w  k, c/groups, [z,] y, x        y  n, k, [do,] ho, wo

    |input| is ([d,] h, w) of x, so its length decides between 2-D and 3-D. For |filter|, |pad|,
    |stride| and |dilation|, one number stands for all dimensions.  A problem is a plain value: it
    can be compared, hashed, used as a dict's key, and pickled.
    """

    n: int
    c: int
    k: int
    input: Tuple[int, ...]
    filter: Tuple[int, ...]
    pad: Tuple[int, ...]
    stride: Tuple[int, ...]
    dilation: Tuple[int, ...]
    groups: int
    direction: Direction
    type: DataType
    x_layout: Layout
    w_layout: Layout
    y_layout: Layout
    allow_tf32: bool  #: fp32 operands may be rounded to TF32, as cuDNN does by default

    def __init__(self, *, n: int, c: int, k: int, input: Sequence[int], filter: Extent,
                 pad: Extent = 0, stride: Extent = 1, dilation: Extent = 1, groups: int = 1,
                 direction: Direction = Direction.FORWARD, type: DataType = DataType.FLOAT32,
                 x_layout: Layout = Layout.CHANNELS_FIRST,
                 w_layout: Layout = Layout.CHANNELS_FIRST,
                 y_layout: Layout = Layout.CHANNELS_FIRST, allow_tf32: bool = False) -> None:
        sizes = tuple(input)
        if len(sizes) not in (2, 3):
            raise invalid(f"input is {input!r}: height and width, in 3-D depth before them")
        for name, extent in (("input", sizes), ("filter", filter), ("pad", pad),
                             ("stride", stride), ("dilation", dilation)):
            object.__setattr__(self, name, _extent(extent, len(sizes), name))
        for name, number in (("n", n), ("c", c), ("k", k), ("groups", groups)):
            object.__setattr__(self, name, to_uint32(number, name))
        object.__setattr__(self, "direction", _member(Direction, direction, "direction"))
        object.__setattr__(self, "type", _member(DataType, type, "type"))
        for name, layout in (("x_layout", x_layout), ("w_layout", w_layout),
                             ("y_layout", y_layout)):
            object.__setattr__(self, name, _member(Layout, layout, name))
        object.__setattr__(self, "allow_tf32",
                           bool(allow_tf32) and self.type == DataType.FLOAT32)

    @classmethod
    def from_driver(cls, line: str) -> "List[Problem]":
        """Returns the problems of one MIOpenDriver command line: those of forward, data, weights
        that -F selects."""
        return list(DriverLine.parse(line).problems)

    def to_driver(self) -> str:
        """Returns the problem as one MIOpenDriver command line."""
        text = ctypes.create_string_buffer(_LINE_MAX)
        call("kiln_problem_to_driver", ctypes.byref(to_struct(self)), text, len(text))
        return to_text(text.value)

    def check(self) -> None:
        """Raises InvalidError if no solver could solve the problem."""
        call("kiln_problem_check", ctypes.byref(to_struct(self)))

    @property
    def output(self) -> Tuple[int, ...]:
        """Returns ([depth,] height, width) of y."""
        sizes = (ctypes.c_uint32 * 3)()
        call("kiln_problem_output", ctypes.byref(to_struct(self)), sizes)
        return tuple(sizes)[3 - len(self.input):]

    def tensor_size(self, which: Tensor) -> Tuple[int, int]:
        """Returns the number of elements and of bytes of a tensor."""
        elements, size = ctypes.c_uint64(), ctypes.c_uint64()
        call("kiln_problem_tensor", ctypes.byref(to_struct(self)), int(which),
             ctypes.byref(elements), ctypes.byref(size))
        return elements.value, size.value


@dataclass(frozen=True)
class DriverLine:
    """One parsed MIOpenDriver command line."""

    problems: Tuple[Problem, ...]
    iterations: int
    verify: bool
    time: bool
    wall: bool
    search: bool
    transposed: bool  #: whether the line has "-m trans": in |problems|, x and y are then exchanged
    solver: str  #: the value of -S as given; "" means the best solver

    @classmethod
    def parse(cls, line: Union[str, Sequence[str]]) -> "DriverLine":
        """Parses a line, or the words of a line. Raises NotFoundError for a blank line or a
        comment."""
        parsed = _abi.DriverLine(size=ctypes.sizeof(_abi.DriverLine))
        if isinstance(line, str):
            call("kiln_driver_line_parse", to_bytes(line, "line"), ctypes.byref(parsed))
        else:
            words = (ctypes.c_char_p * len(line))(*(to_bytes(word, "a word") for word in line))
            call("kiln_driver_words_parse", words, len(line), ctypes.byref(parsed))
        return cls(problems=tuple(from_struct(parsed.problems[i]) for i in range(parsed.count)),
                   iterations=parsed.iterations, verify=bool(parsed.verify), time=bool(parsed.time),
                   wall=bool(parsed.wall), search=bool(parsed.search),
                   transposed=bool(parsed.transposed), solver=to_text(parsed.solver))


_EXTENTS = (("in", "input", 1), ("filter", "filter", 1), ("pad", "pad", 0), ("stride", "stride", 1),
            ("dilation", "dilation", 1))


def to_struct(problem: Problem) -> _abi.Problem:
    if not isinstance(problem, Problem):
        raise TypeError(f"a problem must be kiln.Problem, not {type(problem).__name__}")
    dimensions = len(problem.input)
    made = _abi.Problem(size=ctypes.sizeof(_abi.Problem), direction=problem.direction,
                        spatial_dims=dimensions, type=problem.type, x_layout=problem.x_layout,
                        w_layout=problem.w_layout, y_layout=problem.y_layout, n=problem.n,
                        c=problem.c, k=problem.k, groups=problem.groups,
                        allow_tf32=problem.allow_tf32)
    for field, name, flat in _EXTENTS:
        sizes = (flat,) * (3 - dimensions) + tuple(getattr(problem, name))
        setattr(made, field, (ctypes.c_uint32 * 3)(*sizes))
    return made


def from_struct(made: _abi.Problem) -> Problem:
    first = 3 - made.spatial_dims
    extents = {name: tuple(getattr(made, field))[first:] for field, name, _ in _EXTENTS}
    return Problem(n=made.n, c=made.c, k=made.k, groups=made.groups,
                   direction=Direction(made.direction), type=DataType(made.type),
                   x_layout=Layout(made.x_layout), w_layout=Layout(made.w_layout),
                   y_layout=Layout(made.y_layout), allow_tf32=bool(made.allow_tf32), **extents)


def to_array(problems: Sequence[Problem]) -> "ctypes.Array[_abi.Problem]":
    return (_abi.Problem * len(problems))(*(to_struct(problem) for problem in problems))
