# SPDX-License-Identifier: MIT
"""Finds the convolutions of a model's step without computing it, on PyTorch's meta device."""
import contextlib
import io
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from ..enums import Layout
from ._tensors import memory_format, suggests_last
from ._translate import rest_of

Arguments = Tuple[Any, ...]


@dataclass(frozen=True)
class Found:
    """A convolution of a step in one direction. The tensors have sizes and strides only."""

    result: str  #: as in Choice
    operands: Tuple[torch.Tensor, torch.Tensor]
    made: torch.Tensor
    rest: Arguments  #: the part of Operators' key after the operands


class Recorder(TorchDispatchMode):  # type: ignore[misc]
    """Collects the convolutions that run while the Recorder is active. Computes the shapes of the
    results itself, because some versions of PyTorch cannot compute them for both directions."""

    def __init__(self, autocast: Optional[torch.dtype]) -> None:
        super().__init__()
        self.found: List[Found] = []
        self._autocast = autocast  # converts here, because autocast converts only on GPUs

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Arguments = (),
                           options: Optional[Dict[str, Any]] = None) -> Any:
        if function is torch.ops.aten.convolution.default:
            return self._forward(*arguments)
        if function is torch.ops.aten.convolution_backward.default:
            return self._backward(*arguments)
        if function is torch.ops.aten._convolution.default:  # of torch.jit.trace; not replaced
            return _new(_output_shape(*arguments[:2], *arguments[3:9]), *arguments[:2])
        if function.name() == "aten::_assert_tensor_metadata":  # of torch.export; names the GPU
            return None
        made = function(*arguments, **(options or {}))
        if function is torch.ops.aten.native_batch_norm_backward.default and made[0] is not None:
            # On a GPU, this gradient has the strides of the input, not of the output's gradient.
            return (torch.empty_like(arguments[1]), *made[1:])
        return made

    def _cast(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._autocast is None or tensor.dtype != torch.float32:
            return tensor
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=self._autocast,
                                   device="meta")

    def _note(self, result: str, operands: Tuple[torch.Tensor, torch.Tensor], made: torch.Tensor,
              rest: Arguments) -> None:
        first, second = operands
        self.found.append(Found(result, (self._cast(first), self._cast(second)), made, rest))

    def _forward(self, x: torch.Tensor, w: torch.Tensor, bias: Optional[torch.Tensor],
                 *rest: Any) -> torch.Tensor:
        of_bias = None if bias is None else (self._cast(bias).dtype, bias.shape)
        made = _new(_output_shape(x, w, *rest), x, w)
        self._note("output", (x, w), made, (*rest_of(*rest), of_bias, suggests_last(x, w)))
        return made

    def _backward(self, dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor,
                  bias_sizes: Optional[Sequence[int]], *others: Any) -> Any:
        *rest, mask = others
        key = (*rest_of(*rest), x.shape, w.shape, suggests_last(x, w))
        made: List[Optional[torch.Tensor]] = [None, None, None]
        for i, (result, like, operand) in enumerate((("input", x, w), ("weight", w, x))):
            if mask[i]:
                tensor = made[i] = _new(like.shape, x, w)
                self._note(result, (dy, operand), tensor, key)
        if mask[2]:
            made[2] = dy.new_empty([dy.shape[1]])
        return tuple(made)


def _new(shape: Sequence[int], x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Makes a tensor in the layout that cuDNN's convolutions give to all results."""
    layout = Layout.CHANNELS_LAST if suggests_last(x, w) else Layout.CHANNELS_FIRST
    return x.new_empty(shape).to(memory_format=memory_format(layout, x.dim()))


def _output_shape(x: torch.Tensor, w: torch.Tensor, stride: Sequence[int], padding: Sequence[int],
                  dilation: Sequence[int], transposed: bool, output_padding: Sequence[int],
                  groups: int) -> List[int]:
    shape = [x.shape[0], w.shape[1] * groups if transposed else w.shape[0]]
    for i, (size, filter_) in enumerate(zip(x.shape[2:], w.shape[2:])):
        of = min(i, len(stride) - 1)  # one number may stand for all dimensions
        reach = dilation[of] * (filter_ - 1)
        if transposed:
            size = (size - 1) * stride[of] - 2 * padding[of] + reach + output_padding[of] + 1
        else:
            size = (size + 2 * padding[of] - reach - 1) // stride[of] + 1
        shape.append(size)
    return shape


def _to_meta(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta",
                               requires_grad=value.requires_grad)


def unwrap(model: Any) -> Any:
    """Returns the module that computes a step of |model|, which may be an exported program, or the
    wrapper of torch.compile, DistributedDataParallel or DataParallel."""
    parallel = (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)
    while True:
        if isinstance(model, parallel):
            model = model.module
        elif hasattr(model, "_orig_mod"):  # of torch.compile
            model = model._orig_mod
        elif not isinstance(model, torch.nn.Module) and hasattr(model, "module"):
            model = model.module()  # of torch.export
        else:
            return model


def _uncompiled() -> Any:
    """Returns a context in which compiled parts of a model run as they were written. PyTorch has
    such a context from 2.6 on."""
    set_stance = getattr(getattr(torch, "compiler", None), "set_stance", None)
    return contextlib.nullcontext() if set_stance is None else set_stance("force_eager")


def _on_meta(model: torch.nn.Module) -> Callable[..., Any]:
    """Returns a function that runs |model| with tensors that have no memory."""
    if isinstance(model, torch.jit.ScriptModule):  # its parameters cannot be exchanged for a call
        buffer = io.BytesIO()
        torch.jit.save(model, buffer)
        buffer.seek(0)
        loaded: Callable[..., Any] = torch.jit.load(buffer, map_location="meta")
        return loaded
    state = {name: _to_meta(value)
             for name, value in (*model.named_parameters(), *model.named_buffers())}
    if hasattr(torch, "func"):
        return lambda *arguments: torch.func.functional_call(model, state, arguments)
    from torch.nn.utils import stateless
    return lambda *arguments: stateless.functional_call(model, state, arguments)


def convolutions_of(model: torch.nn.Module,
                    example: Arguments) -> Tuple[List[Found], Optional[Exception]]:
    """Returns the convolutions of a step in order, and the error that ended the step, if one did.
    The backward pass is part of the step if gradients are enabled and a parameter requires one."""
    autocast = torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else None
    recorder = Recorder(autocast)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run, arguments = _on_meta(model), tree_map(_to_meta, example)
            with _uncompiled(), recorder:
                made, _ = tree_flatten(run(*arguments))
                outputs = [t for t in made if isinstance(t, torch.Tensor) and t.requires_grad]
                if outputs:
                    torch.autograd.backward(outputs, [torch.empty_like(t) for t in outputs])
    except Exception as error:
        return recorder.found, error
    return recorder.found, None
