# SPDX-License-Identifier: MIT
"""Layouts and memory of PyTorch's tensors."""
from typing import Any, List, Optional, Tuple

import torch

from ..enums import Layout


def layout_of(tensors: List[torch.Tensor]) -> Layout:
    """Returns the layout of the first tensor that has only one layout. A tensor with one channel or
    one pixel has both layouts."""
    for tensor in tensors:
        first, last = tensor.is_contiguous(), False
        if tensor.dim() > 3:
            last = tensor.is_contiguous(memory_format=memory_format(Layout.CHANNELS_LAST,
                                                                     tensor.dim()))
        if first != last:
            return Layout.CHANNELS_FIRST if first else Layout.CHANNELS_LAST
        if not first and tensor is tensors[0]:
            raise ValueError(f"the result's strides are {tensor.stride()}")
    return Layout.CHANNELS_FIRST


def suggests_last(x: torch.Tensor, w: torch.Tensor) -> bool:
    """Returns whether PyTorch gives channels last to the result of a convolution with this input
    and weight, in all directions."""
    suggest = torch._prims_common.suggest_memory_format
    return any(suggest(t) is not torch.contiguous_format for t in (x, w) if t.dim() > 3)


def strides_of_copy(operand: torch.Tensor, form: Any) -> Optional[Tuple[int, ...]]:
    """Returns the strides of |operand|'s copy in the memory format |form|, or None if it needs no
    copy."""
    if operand.is_contiguous(memory_format=form):
        return None
    return tuple(torch.empty_like(operand, memory_format=form, device="meta").stride())


def memory_format(layout: Layout, dimensions: int) -> Any:
    if layout is Layout.CHANNELS_FIRST or dimensions == 3:
        return torch.contiguous_format
    return torch.channels_last if dimensions == 4 else torch.channels_last_3d


def random_like(tensors: Tuple[torch.Tensor, torch.Tensor]) -> Tuple[torch.Tensor, torch.Tensor]:
    """Returns random tensors of the same sizes and strides. Does not use PyTorch's own generator,
    because the job's random numbers must be the same as without kiln."""
    generator = torch.Generator(device=tensors[0].device).manual_seed(0)
    first, second = (torch.empty_like(t).normal_(generator=generator) for t in tensors)
    return first, second


def without_memory(shape: Tuple[int, ...], strides: Tuple[int, ...], dtype: torch.dtype,
                    device: Any) -> torch.Tensor:
    """Returns a tensor for torch.empty_like(), and frees its memory. On the host, the memory had no
    pages, because it was not touched. But the host may refuse to reserve so much; the tensor is
    then on |device|. A tensor of the device "meta" has no memory either, but torch.empty_like() of
    it runs in Python, from PyTorch 2 on."""
    try:
        tensor = torch.empty_strided(shape, strides, dtype=dtype, device="cpu")
    except RuntimeError:
        tensor = torch.empty_strided(shape, strides, dtype=dtype, device=device)
    storage: Any = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else \
        tensor.storage()
    storage.resize_(0)
    return tensor


def norm_of(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor, dtype=torch.float32))
