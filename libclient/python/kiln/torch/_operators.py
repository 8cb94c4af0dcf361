# SPDX-License-Identifier: MIT
"""Replaces PyTorch's convolution operators below autograd, at one dispatch key."""
import ctypes
import warnings
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from ..errors import InvalidError
from ._choice import Accelerator, Choice, Request, State
from ._native import ASKED, Native, Unavailable
from ._tensors import suggests_last
from ._translate import Geometry

Key = Tuple[Any, ...]
Gradients = Tuple[Optional[Choice], Optional[Choice]]
Result = Tuple[Optional[Tensor], Optional[Tensor], Optional[Tensor]]
CHOICES_MAX = 4096  # limits the compilations for a job that uses new sizes all the time
# Maximum time that the first call of a convolution waits for kilnd's plan, if an earlier process
# chose kiln for this convolution.
RECALL_WAIT_S = 0.5
ERROR_MAX = 300  # characters of a model's error; TorchScript's begin with long traces
ALIGNMENT = 16  # bytes; what kiln_run_launch_native requires of each tensor
OPERATORS = ("convolution", "convolution_backward")
# An attribute of a class takes longer to read.
KILN, POSTPONED, ORIGINAL = State.KILN, State.POSTPONED, State.ORIGINAL
COMPOSITE = "CompositeExplicitAutograd"  # PyTorch's own implementations, for every device


def _original(name: str) -> Callable[..., Any]:
    """Returns PyTorch's own implementation, which stays registered for COMPOSITE."""
    if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", COMPOSITE):
        raise RuntimeError(f"kiln.torch: PyTorch {torch.__version__} has no aten::{name} that kiln "
                           "could leave calls to")
    overload = getattr(torch.ops.aten, name).default
    key = getattr(torch._C.DispatchKey, COMPOSITE)
    return lambda *arguments: overload._op_dk(key, *arguments)


def _tf32_getter() -> Callable[[], bool]:
    """Returns a function that says whether convolutions may use TF32. From PyTorch 2.9 on,
    cudnn.conv.fp32_precision decides, and the older getter fails if the precisions of convolutions
    and recurrent networks differ."""
    if hasattr(torch._C, "_get_fp32_precision_getter"):
        precision = torch._C._get_fp32_precision_getter
        return lambda: bool(precision("cuda", "conv") == "tf32")
    getter: Callable[[], bool] = torch._C._get_cudnn_allow_tf32
    return getter


_get_benchmark = torch._C._get_cudnn_benchmark
_get_deterministic = torch._C._get_cudnn_deterministic
_get_deterministic_algorithms = torch._C._get_deterministic_algorithms
_get_enabled = torch._C._get_cudnn_enabled
_get_tf32 = _tf32_getter()
# While PyTorch traces a model, PyTorch's own operator must run, because a trace would lack kiln's.
_is_tracing = torch._C._is_tracing


def _flags() -> Tuple[bool, bool, bool, bool]:
    """Returns benchmark, deterministic, enabled, allow_tf32, in the order of aten::_convolution."""
    return (_get_benchmark(), _get_deterministic() or _get_deterministic_algorithms(),
            _get_enabled(), _get_tf32())


def _strides_that_count(tensor: Tensor) -> Tuple[int, ...]:
    """Returns the strides of a tensor, but 0 for each dimension of size 1, whose stride has no
    meaning. Such strides depend on how the tensor was made, so prepare() cannot know them."""
    return tuple(0 if size == 1 else stride
                 for size, stride in zip(tensor.shape, tensor.stride()))


def _key(result: str, operands: Tuple[Tensor, Tensor], rest: Tuple[Any, ...],
         device: torch.device, other_device: torch.device, is_aligned: bool) -> Key:
    """Returns what distinguishes one convolution from all others. The last element of |rest| is
    suggests_last(), on which the strides of the result depend."""
    first, second = operands
    return (result, first.shape, _strides_that_count(first), second.shape,
            _strides_that_count(second), first.dtype, second.dtype, rest, _flags(), device,
            other_device, is_aligned)


def _is_misaligned(operand: Tensor) -> bool:
    """Returns whether kiln would refuse the operand's memory. An operand with other strides is
    copied to suitable memory first."""
    if operand.data_ptr() % ALIGNMENT == 0:
        return False
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(operand.dim())
    return operand.is_contiguous() or (last is not None and
                                       operand.is_contiguous(memory_format=last))


class Operators:
    """The replaced operators, with one choice for each convolution and direction."""

    def __init__(self, accelerator: Accelerator, dispatch_key: str,
                 native: Optional[Native] = None) -> None:
        """|native| are the C operators, which run what is decided, and pass on all other calls."""
        self.choices: Dict[Key, Choice] = {}
        # Choices by arguments, all strides included. These keys take less time to make, and a
        # backward pass needs one look-up only.
        self.outputs: Dict[Key, Choice] = {}
        self.gradients: Dict[Key, Gradients] = {}
        self.errors: List[str] = []  # errors of kiln.torch itself; should stay empty
        self._accelerator = accelerator
        self._recall_wait_s = RECALL_WAIT_S  # 0 after the first wait in vain
        self._dispatch_key = dispatch_key
        self._forward, self._any_backward = (_original(name) for name in OPERATORS)
        self._library: Optional[Any] = None
        self._native = native
        self.language = "Python" if native is None else "C"

    # ---- registration ----

    def start(self) -> None:
        if self._library is not None:
            return
        # Also for operators in C: PyTorch warns only once that an operator of its own is replaced,
        # and the warning can be suppressed here only.
        self._library = self._register(self._dispatch_key)
        if self._native is None:
            return
        self._library = None
        asked = self._register(ASKED)
        try:
            self._native.start()
            self._library = asked
        except Exception as error:
            self._native = None
            self.language = _without_native(error)
            self._library = self._register(self._dispatch_key)

    def _register(self, dispatch_key: str) -> Any:
        """Installs Python's operators, for as long as the returned object exists."""
        library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # replacing an operator is what is wanted here
            for name in OPERATORS:
                library.impl(name, _unseen(getattr(self, name)), dispatch_key)
        return library

    def stop(self) -> None:
        """Makes PyTorch's operators run again without passing through Python."""
        if self._library is not None and self._native is not None:
            self._native.stop()
        self._library = None  # the registration ends with the object

    # ---- finding choices ----

    def _find(self, result: str, operands: Tuple[Tensor, Tensor],
              rest: Tuple[Any, ...]) -> Optional[Choice]:
        first, second = operands
        is_aligned = (first.data_ptr() | second.data_ptr()) % ALIGNMENT == 0
        key = _key(result, operands, rest, first.device, second.device, is_aligned)
        choice = self.choices.get(key)
        if choice is None and len(self.choices) < CHOICES_MAX:
            choice = self._new(key, operands, rest)
            if choice.state is State.NEW:
                self._recall(choice, operands)
            choice = self.choices.setdefault(key, choice)
        return choice

    def _new(self, key: Key, operands: Tuple[Tensor, Tensor], rest: Tuple[Any, ...]) -> Choice:
        stride, padding, dilation, transposed, _, groups = rest[:6]
        *_, flags, device, other_device, is_aligned = key
        _, is_deterministic, is_enabled, allow_tf32 = flags
        text = repr(key[:-3])  # the same in every process, and for each of several equal GPUs
        choice = Choice(self._accelerator, text, key[0],
                        Geometry(stride, padding, dilation, transposed, groups), operands[0].dtype,
                        device, allow_tf32)
        choice.flags = flags
        if key[0] != "output":
            choice.shape = tuple(rest[-3] if key[0] == "input" else rest[-2])
        if is_deterministic:
            choice.settle("deterministic mode: timing could choose differently in each process")
        elif not is_enabled:
            choice.settle("torch.backends.cudnn.enabled is False")
        elif operands[0].dtype != operands[1].dtype or device != other_device:
            choice.settle("operands of two types or devices")
        elif not is_aligned and any(map(_is_misaligned, operands)):
            choice.settle(f"memory that does not begin at a multiple of {ALIGNMENT} bytes")
        return choice

    def _recall(self, choice: Choice, operands: Tuple[Tensor, Tensor]) -> None:
        try:
            if not choice.recall(operands, self._recall_wait_s):
                self._recall_wait_s = 0.0
        except Exception as error:
            choice.settle(str(error))

    def prepare(self, model: torch.nn.Module, example: Tuple[Any, ...]) -> int:
        """Requests the plans of a step of |model| in one batch. Returns the number of its
        convolutions."""
        from ._prepare import convolutions_of, unwrap
        model = unwrap(model)
        kind = self._dispatch_key.lower()
        device = next((p.device for p in model.parameters() if p.device.type == kind), None)
        if device is None:
            raise ValueError(f"no parameter of the model is on a device of the kind '{kind}'")
        found, error = convolutions_of(model, example)
        if error is not None:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            self._note(f"prepare() knows the {len(found)} convolutions before the point where the "
                       f"model failed: {text[-ERROR_MAX:]}")
        requests: List[Request] = []
        for one in found:
            key = _key(one.result, one.operands, one.rest, device, device, True)
            if key in self.choices or len(self.choices) >= CHOICES_MAX:
                continue
            choice = self._new(key, one.operands, one.rest)
            request = choice.prepare(one.made, one.operands) if choice.state is State.NEW else None
            if self.choices.setdefault(key, choice) is choice and request is not None:
                requests.append(request)
        if requests:
            self._accelerator.ask(-1 if device.index is None else device.index, requests)
        return len(found)

    def _ready(self, result: str, x: Tensor, w: Tensor, operands: Tuple[Tensor, Tensor],
               rest: Key) -> Optional[Choice]:
        """Like _find, but never fails. After an error, returns None, and the original runs."""
        try:
            return self._find(result, operands, (*rest, suggests_last(x, w)))
        except Exception as error:
            self._note(error)
            return None

    def _note(self, error: Union[str, Exception]) -> None:
        if len(self.errors) < 10:
            self.errors.append(error if isinstance(error, str) else
                               f"{type(error).__name__}: {error}")

    def _compute(self, choice: Choice, first: Tensor, second: Tensor,
                 bias: Optional[Tensor] = None) -> Optional[Tensor]:
        """Returns None if the original has to run."""
        try:
            made = choice.compute(first, second)
            if bias is not None:
                made.transpose(1, -1).add_(bias)  # takes less time than reshaping |bias|
            choice.python_calls[0] += 1
            return made
        except InvalidError as error:  # this call's memory is unsuitable
            self._note(error)
        except Exception as error:
            choice.settle(str(error))
        return None

    # ---- the operators; a call whose choice is made executes only this code ----

    def convolution(self, x: Tensor, w: Tensor, bias: Optional[Tensor], stride: Sequence[int],
                    padding: Sequence[int], dilation: Sequence[int], transposed: bool,
                    output_padding: Sequence[int], groups: int) -> Tensor:
        if _is_tracing():
            traced: Tensor = self._forward(x, w, bias, stride, padding, dilation, transposed,
                                           output_padding, groups)
            return traced
        rest = (tuple(stride), tuple(padding), tuple(dilation), transposed, tuple(output_padding),
                groups, None if bias is None else (bias.dtype, bias.shape))
        choice = self._output(x, w, rest)
        self._tell_native((choice,), (True,))
        if choice is not None and (choice.state is KILN or _postpones(choice)):
            made = self._compute(choice, x, w, bias)
            if made is not None:
                return made
        elif choice is not None and choice.state is ORIGINAL:
            choice.python_calls[1] += 1
            output: Tensor = torch._convolution(x, w, bias, *rest[:6], *choice.flags)
            return output
        return self._convolve(choice, x, w, bias, rest)

    def convolution_backward(self, dy: Tensor, x: Tensor, w: Tensor,
                             bias_sizes: Optional[Sequence[int]], stride: Sequence[int],
                             padding: Sequence[int], dilation: Sequence[int], transposed: bool,
                             output_padding: Sequence[int], groups: int,
                             output_mask: Sequence[bool]) -> Result:
        if _is_tracing() or len(output_mask) != 3:  # PyTorch rejects such a mask
            return self._backward(dy, x, w, bias_sizes, stride, padding, dilation, transposed,
                                  output_padding, groups, output_mask)
        rest = (tuple(stride), tuple(padding), tuple(dilation), transposed, tuple(output_padding),
                groups)
        of_x, of_w = choices = self._gradients(dy, x, w, rest, output_mask)
        self._tell_native(choices, output_mask)
        if (of_x is None or of_x.state is ORIGINAL) and (of_w is None or of_w.state is ORIGINAL):
            for choice in choices:
                if choice is not None:
                    choice.python_calls[1] += 1
            return self._backward(dy, x, w, bias_sizes, *rest, output_mask)
        dx = dw = None
        if of_x is not None and (of_x.state is KILN or _postpones(of_x)):
            dx = self._compute(of_x, dy, w)
        if of_w is not None and (of_w.state is KILN or _postpones(of_w)):
            dw = self._compute(of_w, dy, x)
        left = (output_mask[0] and dx is None, output_mask[1] and dw is None, output_mask[2])
        if not any(left):
            return dx, dw, None

        def original(dy: Tensor, x: Tensor, w: Tensor, mask: Sequence[bool]) -> Result:
            return self._backward(dy, x, w, bias_sizes, *rest, mask)

        made: List[Optional[Tensor]] = list(original(dy, x, w, left))
        for i, operands in enumerate(((dy, w), (dy, x))):
            choice, tensor = choices[i], made[i]
            if left[i] and choice is not None and tensor is not None:
                choice.python_calls[1] += 1
                if choice.state is not State.ORIGINAL:
                    one = _one_of(original, x, w, i)
                    made[i] = choice.learn(tensor, operands, partial(one, *operands),
                                           partial(choice.compute, *operands), one)
        return dx if dx is not None else made[0], dw if dw is not None else made[1], made[2]

    def _output(self, x: Tensor, w: Tensor, rest: Key) -> Optional[Choice]:
        """Finds the choice of an output. Never fails."""
        try:
            key = (x.shape, x.stride(), w.shape, w.stride(), x.dtype, w.dtype, rest, _flags(),
                   x.device, w.device, (x.data_ptr() | w.data_ptr()) % ALIGNMENT == 0)
            found = self.outputs.get(key)
        except Exception as error:
            self._note(error)
            return None
        if found is None:
            found = self._ready("output", x, w, (x, w), rest)
            if found is not None and len(self.outputs) < CHOICES_MAX:
                self.outputs[key] = found
        return found

    def _gradients(self, dy: Tensor, x: Tensor, w: Tensor, rest: Key,
                   mask: Sequence[bool]) -> Gradients:
        """Finds the choices of both gradients by one look-up. Never fails."""
        try:
            first, second, third = dy.data_ptr(), x.data_ptr(), w.data_ptr()
            key = (dy.shape, dy.stride(), x.shape, x.stride(), w.shape, w.stride(), dy.dtype,
                   x.dtype, w.dtype, rest, mask[0], mask[1], _flags(), dy.device, x.device,
                   w.device, (first | third) % ALIGNMENT == 0, (first | second) % ALIGNMENT == 0)
            found = self.gradients.get(key)
        except Exception as error:
            self._note(error)
            return None, None
        if found is None:
            rest = (*rest, x.shape, w.shape)
            of_x = self._ready("input", x, w, (dy, w), rest) if mask[0] else None
            of_w = self._ready("weight", x, w, (dy, x), rest) if mask[1] else None
            found = of_x, of_w
            if (of_x or of_w) and (of_x or not mask[0]) and (of_w or not mask[1]) and \
                    len(self.gradients) < CHOICES_MAX:
                self.gradients[key] = found
        return found

    def _tell_native(self, choices: Sequence[Optional[Choice]], wanted: Sequence[bool]) -> None:
        """Lets the C operators run further calls like this one, if the wanted choices are
        decided."""
        if self._native is None:
            return
        if all(choice is not None for choice, is_wanted in zip(choices, wanted) if is_wanted):
            try:
                self._native.remember(*choices)
            except Exception as error:
                self._note(error)

    # ---- calls of the original ----

    def _backward(self, dy: Tensor, *rest: Any) -> Result:
        """Makes the gradient's device current, as PyTorch's kernel of this operator for GPUs does.
        Its kernel for every device, which runs here, does not, and cuDNN would run on the device
        that is current."""
        with self._accelerator.on_device(dy.device.index):
            made: Result = self._any_backward(dy, *rest)
        return made

    def _convolve(self, choice: Optional[Choice], x: Tensor, w: Tensor, bias: Optional[Tensor],
                  rest: Key) -> Tensor:
        arguments = rest[:6]

        def original(x: Tensor, w: Tensor, bias: Optional[Tensor] = None) -> Tensor:
            # _forward does the same as _convolution, but takes twice the time
            made: Tensor = self._forward(x, w, bias, *arguments) if choice is None else \
                torch._convolution(x, w, bias, *arguments, *choice.flags)
            return made

        def kiln() -> Tensor:
            assert choice is not None
            made = choice.compute(x, w)
            if bias is not None:
                made.transpose(1, -1).add_(bias)
            return made

        made = original(x, w, bias)
        if choice is not None:
            choice.python_calls[1] += 1
            if choice.state is not State.ORIGINAL:
                made = choice.learn(made, (x, w), partial(original, x, w, bias), kiln, original)
        return made


def make_operators(accelerator: Accelerator, dispatch_key: str) -> Operators:
    """Returns operators in C where they were tested, else in Python."""
    try:
        native = Native(dispatch_key, OPERATORS, accelerator.native_functions)
        if native.flags() != _flags():
            raise Unavailable("the C operators misread PyTorch's flags")
    except Exception as error:
        operators = Operators(accelerator, dispatch_key)
        operators.language = _without_native(error)
        return operators
    operators = Operators(accelerator, dispatch_key, native)
    # At exit, PyTorch's threads may still run the operators in C, which use the loaded plans. So
    # nothing of this is ever freed.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(operators))
    return operators


def _without_native(error: Exception) -> str:
    kind = "" if isinstance(error, Unavailable) else f"{type(error).__name__}: "
    return f"Python, because the C operators are unavailable: {kind}{error}"


def _unseen(operator: Callable[..., Any]) -> Callable[..., Any]:
    """Returns an operator that hides its own calls of PyTorch from __torch_function__ of the job's
    classes and modes. PyTorch's operators in C++ hide theirs, too."""
    def run(*arguments: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return operator(*arguments)

    return run


def _postpones(choice: Choice) -> bool:
    return choice.state is POSTPONED and choice.postpones()


def _one_of(original: Callable[..., Result], x: Tensor, w: Tensor,
            index: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Returns a function that computes only the gradient |index|, from that of the output and the
    weight (0) or the input (1)."""
    mask = [i == index for i in range(3)]

    def compute(dy: Tensor, other: Tensor) -> Tensor:
        made = original(dy, other if index else x, w if index else other, mask)[index]
        assert made is not None
        return made

    return compute
