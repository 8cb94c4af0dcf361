# SPDX-License-Identifier: MIT
"""The parts of PyTorch that kiln.torch.install() uses. |replaced| lists the operators that it has
replaced."""
from types import SimpleNamespace as Names

__version__, replaced = "2.9", []


class Tensor:
    pass


dtype = device = Tensor
nn = Names(Module=Tensor)


class Library:
    def __init__(self, *names):
        pass

    def impl(self, name, function, key):
        replaced.append(name)


overload = Names(default=Names(_op_dk=None))
library = Names(Library=Library)
version = Names(hip=None)
ops = Names(aten=Names(convolution=overload, convolution_backward=overload))
_C = Names(_cuda_getCurrentRawStream=lambda index: 0, _is_tracing=bool,
           DispatchKey=Names(CompositeExplicitAutograd=1), _get_cudnn_benchmark=bool,
           _get_cudnn_deterministic=bool, _get_deterministic_algorithms=bool,
           _get_cudnn_enabled=bool, _get_cudnn_allow_tf32=bool,
           _dispatch_has_kernel_for_dispatch_key=lambda name, key: True)
