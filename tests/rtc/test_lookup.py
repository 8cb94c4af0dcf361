# SPDX-License-Identifier: MIT
"""libkiln-rtc's dlsym in programs that look functions up in unusual ways. HAMi-core, which also
replaces dlsym, once had a bug in each of these cases."""
import shutil
import subprocess
import sys

import pytest

from conftest import WAIT_MAX_S
from jobs import FAKE, HERE, PRELOAD
from test_rtc import daemon, job  # noqa: F401 (fixtures)

NEXT = HERE / "libkiln_rtc_next.so"
BEGINNING = """
import ctypes, pathlib, threading

class Info(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("address", ctypes.c_void_p)]

program = ctypes.CDLL(None)
dlsym = program.dlsym
dlsym.restype, dlsym.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]

def file_of(address):
    info = Info()
    found = address and program.dladdr(ctypes.c_void_p(address), ctypes.byref(info))
    return pathlib.Path(info.file.decode()).name if found else None

def where(library, name):
    return file_of(dlsym(library._handle, name))

def compile(library, source):
    handle, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert library.nvrtcCreateProgram(ctypes.byref(handle), source, None, 0, None, None) == 0
    assert library.nvrtcCompileProgram(handle, 0, None) == 0
    assert library.nvrtcGetCUBINSize(handle, ctypes.byref(size)) == 0
    return size.value
"""


@pytest.fixture
def look_up(job):  # noqa: F811
    """Returns what a script prints, with libkiln-rtc or without it."""
    def run(script, plain=False):
        libraries = [NEXT] if plain else [PRELOAD, NEXT]
        done = subprocess.run([sys.executable, "-c", BEGINNING + script], text=True,
                              env=dict(job.environment, LD_PRELOAD=":".join(map(str, libraries))),
                              capture_output=True, timeout=WAIT_MAX_S, cwd=job.directory)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()
    return run


def test_the_next_library_is_the_one_after_the_caller(look_up):
    """HAMi-core 315: a dlsym that calls libc's dlsym counts as the caller. A library then finds its
    own function again, and loops."""
    script = """
program.next_of_itself.restype = ctypes.c_void_p
print(program.next_of_itself())
"""
    assert look_up(script) == look_up(script, plain=True) == ["None"]


def test_a_function_may_be_looked_up_again_and_on_other_threads(look_up):
    """HAMi-core 279: a table of each thread's look-ups mistook a second look-up for recursion."""
    script = """
program.next_open.restype = ctypes.c_void_p
found = []
def repeat():
    found.extend(file_of(program.next_open()) for _ in range(1000))
threads = [threading.Thread(target=repeat) for _ in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join(60)
print(len(found), *set(found))
"""
    assert look_up(script) == look_up(script, plain=True) == ["4000", "libc.so.6"]


def test_a_function_is_looked_up_in_the_library_that_the_caller_names(look_up, job):  # noqa: F811
    """HAMi-core 326: the handle was replaced by another one."""
    other = job.directory / "libother.so"
    shutil.copy(FAKE, other)
    script = f"""
first = ctypes.CDLL({str(FAKE)!r}, ctypes.RTLD_GLOBAL)
second = ctypes.CDLL({str(other)!r})
math = ctypes.CDLL("libm.so.6")
print(*(where(l, b"nvrtcVersion") for l in (first, second, math)), where(math, b"cos"),
      where(math, b"nvrtcCompileProgram"))
addresses = {{dlsym(l._handle, b"nvrtcCompileProgram") for l in (first, second)}}
print(len(addresses), *(compile(l, b"void k();") for l in (first, second)))
"""
    expected = look_up(script, plain=True)
    assert expected[:5] == ["libnvrtc.so.99", "libother.so", "None", "libm.so.6", "None"]
    assert look_up(script) == expected


def test_only_whole_names_are_wrapped(look_up):
    """HAMi-core 215: all names that begin with cu were looked up in HAMi-core itself."""
    script = f"""
library = ctypes.CDLL({str(FAKE)!r})
for name in (b"nvrtcVersion", b"nvrtcGetNumSupportedArchs", b"nvrtcCreateProgramLater",
             b"nvrtcCreate", b"__nvrtcCPEx", b""):
    print(where(library, name))
for name in b"cudnnCreate", b"cuInit", b"hiprtc", b"amd_comgr_do":
    print(where(program, name))
"""
    expected = look_up(script, plain=True)
    assert expected == ["libnvrtc.so.99"] * 3 + ["None"] * 3 + [NEXT.name] + ["None"] * 3
    assert look_up(script) == expected


@pytest.mark.parametrize("handle", ["program._handle", "None"], ids=["program", "default"])
def test_the_programs_own_handle_finds_the_real_functions(look_up, job, handle):  # noqa: F811
    """The first function of this name in the whole program is libkiln-rtc's own."""
    script = f"""
ctypes.CDLL({str(FAKE)!r}, ctypes.RTLD_GLOBAL)
def call(name, *arguments):
    kinds = [type(a) if isinstance(a, ctypes._SimpleCData) else ctypes.c_void_p for a in arguments]
    return ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(dlsym({handle}, name))(*arguments)
p, size = ctypes.c_void_p(), ctypes.c_size_t()
print(call(b"nvrtcCreateProgram", ctypes.addressof(p), ctypes.c_char_p(b"void k();"), None,
           ctypes.c_int(0), None, None))
print(call(b"nvrtcCompileProgram", p, ctypes.c_int(0), None))
print(call(b"nvrtcGetCUBINSize", p, ctypes.addressof(size)), size.value)
"""
    expected = look_up(script, plain=True)
    assert expected[:3] == ["0", "0", "0"]
    job.compiles()
    assert look_up(script) == look_up(script) == expected
    assert job.compiles() == 1
