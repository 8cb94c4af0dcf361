# SPDX-License-Identifier: MIT
"""A program that compiles while it runs, and does not know kiln: compiles two kernels with NVRTC or
hiprtc, and prints a hash of each result. Usage: train.py LIBRARY"""
import ctypes
import hashlib
import sys

library = ctypes.CDLL(sys.argv[1])
if hasattr(library, "hiprtcCreateProgram"):
    prefix, output, option = "hiprtc", "Code", b"--offload-arch=gfx90a"
else:
    prefix, output, option = "nvrtc", "CUBIN", b"--gpu-architecture=sm_90"


def call(name, *arguments):
    code = getattr(library, prefix + name)(*arguments)
    if code != 0:
        sys.exit(f"{prefix}{name} returned {code}")


for factor in 2, 3:
    source = f'extern "C" __global__ void scale{factor}(float *x) {{ *x *= {factor}; }}'
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    call("CreateProgram", ctypes.byref(program), source.encode(), b"train.cu", 0, None, None)
    call("CompileProgram", program, 1, (ctypes.c_char_p * 1)(option))
    call(f"Get{output}Size", program, ctypes.byref(size))
    binary = ctypes.create_string_buffer(size.value)
    call(f"Get{output}", program, binary)
    print(f"scale{factor}", hashlib.sha256(binary.raw).hexdigest())
    call("DestroyProgram", ctypes.byref(program))
