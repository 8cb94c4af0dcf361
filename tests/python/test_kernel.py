# SPDX-License-Identifier: MIT
"""Tests kernels by key, by source and by name; their bytes, and how long these stay valid."""
import bz2
import copy
import ctypes
import gc
import hashlib
import pickle
import re
import sqlite3

import pytest

import kiln
from conftest import DATABASE_ID, TARGET
from kiln._call import Handle
from kiln._library import library
from test_client import in_child

ELF = b"\x7fELF"
MAPPED_FROM = 16 << 10  # bytes from which on libkiln maps a kernel instead of copying it
UNKNOWN = "0" * 64


@pytest.fixture
def freed(monkeypatch):
    """Collects the pointers of released kernels."""
    gc.collect()
    given = []
    original = Handle.__del__

    def counting(handle):
        if handle.pointer and handle._release is library().kiln_kernel_unref:
            given.append(handle.pointer)
        original(handle)

    monkeypatch.setattr(Handle, "__del__", counting)
    yield given


@pytest.fixture(scope="session")
def small(daemon, compiler, source):
    with kiln.Client(daemon.socket) as c:
        return c.fetch_source(source("small"))


@pytest.fixture(scope="session")
def large(daemon, compiler, source):
    """A kernel that is too large for a private copy of its bytes, so its file is mapped."""
    table = "__device__ int table[8192] = {1, 2, 3};\n"
    made = source("large", "p[0] += table[(int)p[1]];")
    made = kiln.KernelSource(target=made.target, program=made.program, source=table + made.source)
    with kiln.Client(daemon.socket) as c:
        kernel = c.fetch_source(made)
    assert len(kernel) > MAPPED_FROM
    return kernel


def mappings():
    """Returns the number of kernels' memory files that this process maps."""
    with open("/proc/self/maps") as maps:
        return sum("memfd:" in line for line in maps)


def test_a_source_becomes_a_code_object(small):
    assert bytes(small).startswith(ELF)
    assert re.fullmatch("[0-9a-f]{64}", small.key)
    assert len(small) == len(small.data) == len(bytes(small))
    assert small.tier == kiln.Tier.COMPILED and small.compile_ns > 0
    assert small.key[:12] in repr(small)


def test_a_key_finds_its_compiled_kernel(daemon, small):
    with kiln.Client(daemon.socket) as client:
        again = client.fetch(small.key)
    assert bytes(again) == bytes(small) and again.tier in (kiln.Tier.HOT, kiln.Tier.DISK)


def test_a_process_caches_fetched_kernels(client, small):
    client.fetch(small.key)
    assert client.fetch(small.key).tier == kiln.Tier.PROCESS
    assert client.status().cache_hits == 1


def test_a_kernel_miss_raises_with_its_code(client):
    with pytest.raises(kiln.NotFoundError) as caught:
        client.fetch(UNKNOWN)
    assert caught.value.code == kiln.ErrorCode.NOT_FOUND and caught.value.text
    with pytest.raises(kiln.InvalidError):
        client.fetch("no key")


def test_headers_options_and_bytes_reach_the_compiler(client, compiler):
    made = kiln.KernelSource(
        target=TARGET, program="parts.cpp", options="-DVALUE=VALUE_OF_HEADER", toolchain=compiler,
        source=b'#include "parts.h"\nextern "C" __global__ void parts(int *p) { *p = VALUE; }\n',
        headers={"parts.h": "#define VALUE_OF_HEADER 1234\n"}, priority=kiln.Priority.PREFETCH)
    assert bytes(client.fetch_source(made)).startswith(ELF)


def test_a_compile_error_carries_the_compilers_log(client, compiler, source):
    with pytest.raises(kiln.CompileFailedError) as caught:
        client.fetch_source(source("broken", "this is not C"))
    assert "this" in caught.value.log and caught.value.text
    assert not caught.value.retryable


def test_text_that_ctypes_would_truncate_is_refused(client, source):
    with pytest.raises(kiln.InvalidError, match="options holds a NUL"):
        client.fetch_source(source(options="-O1\0-O2"))
    with pytest.raises(TypeError, match="source must be str or bytes"):
        client.fetch_source(kiln.KernelSource(target=TARGET, program="a.cpp", source=17))


def test_a_kernel_name_finds_an_imported_kernel(daemon, client, small):
    directory = daemon.directory / "2.17.0.a82233c22"
    directory.mkdir(exist_ok=True)
    path = directory / f"{DATABASE_ID}.ukdb"
    blob = bytes(small)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE `kern_db` (`id` INTEGER PRIMARY KEY ASC,"
                   "`kernel_name` TEXT NOT NULL,`kernel_args` TEXT NOT NULL,"
                   "`kernel_blob` BLOB NOT NULL,`kernel_hash` TEXT NOT NULL,"
                   "`uncompressed_size` INT NOT NULL)")
        db.execute("INSERT INTO kern_db(kernel_name, kernel_args, kernel_blob, kernel_hash, "
                   "uncompressed_size) VALUES(?, ?, ?, ?, ?)",
                   ("conv3x3.s.o", " -Wa,-defsym,n=1", bz2.compress(blob),
                    hashlib.md5(blob).hexdigest(), len(blob)))
    db.close()
    daemon.kilnctl("kernel", "import", str(path))
    assert bytes(client.fetch_named(DATABASE_ID, "conv3x3.s.o", " -Wa,-defsym,n=1")) == blob
    with pytest.raises(kiln.NotFoundError):
        client.fetch_named(DATABASE_ID, "conv3x3.s.o", "other")


# ---- the bytes ----


def test_the_view_of_a_kernel_is_read_only_and_of_bytes(small):
    view = small.data
    assert view.readonly and view.format == "B" and view.contiguous
    assert view[:4] == ELF and view == bytes(small)
    with pytest.raises(TypeError):
        view[0] = 0


def test_the_memory_of_a_kernel_view_cannot_be_written(small, large):
    """Large kernels must share their memory with other processes."""
    for kernel in (small, large):
        view = kernel.data
        assert isinstance(view.obj, bytes)
        with pytest.raises(TypeError):
            (ctypes.c_char * 4).from_buffer(view.obj)
        with pytest.raises((TypeError, BufferError)):
            ctypes.c_char.from_buffer(view)
        # views share one copy of the bytes
        assert kernel.data.obj is view.obj


def test_the_bytes_of_a_kernel_live_as_long_as_a_view(daemon, compiler, large, freed):
    with kiln.Client(daemon.socket, cache_entries=-1) as client:
        kernel = client.fetch(large.key)
    expected = bytes(large)
    view = kernel.data
    part = view[4:]
    before = mappings()
    kernel.close()
    del kernel, view
    gc.collect()
    assert len(freed) == 1 and mappings() == before - 1
    assert part == expected[4:]


def test_a_closed_kernel_raises(client, small):
    with client.fetch(small.key) as kernel:
        assert kernel.data[:4] == ELF
    kernel.close()
    with pytest.raises(kiln.InvalidError, match="closed"):
        kernel.data
    assert kernel.key == small.key and len(kernel) == len(small)


def test_kernels_are_freed_once(client, small, freed):
    kernel = client.fetch(small.key)
    kernel.close()
    kernel.close()
    del kernel
    gc.collect()
    assert len(freed) == 1


def test_kernels_outlive_their_client_and_a_fork(daemon, large):
    with kiln.Client(daemon.socket) as client:
        kernel = client.fetch(large.key)
    assert bytes(kernel) == bytes(large)
    assert in_child(lambda: hashlib.sha256(kernel.data).hexdigest()) == \
        hashlib.sha256(large.data).hexdigest()


def test_kernels_are_not_copied(small):
    for attempt in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="its key"):
            attempt(small)


# ---- batches ----


def test_a_batch_of_sources_is_answered_in_order(client, compiler, source):
    wanted = [source(f"batch{i}") for i in range(3)]
    told = []
    kernels = client.fetch_batch(wanted, ready=lambda i, k: told.append((i, k)))
    assert [bytes(k)[:4] for k in kernels] == [ELF] * 3
    assert sorted(i for i, _ in told) == [0, 1, 2]
    assert all(kernels[i] is k for i, k in told)
    assert [client.fetch_source(s).key for s in wanted] == [k.key for k in kernels]


def test_a_batch_of_keys_reports_missing_kernels(client, small, large):
    first, second, third = client.fetch_batch([small.key, UNKNOWN, large.key])
    assert bytes(first) == bytes(small) and bytes(third) == bytes(large)
    assert isinstance(second, kiln.NotFoundError)


def test_a_batch_of_nothing_is_nothing(client):
    assert client.fetch_batch([]) == []


def test_a_batch_must_be_a_list_of_keys(client):
    with pytest.raises(TypeError, match="sequence"):
        client.fetch_batch(UNKNOWN)


def test_a_batch_callback_may_use_the_client(client, small):
    inner = []
    client.fetch_batch([small.key], ready=lambda i, k: inner.append(client.fetch(small.key)))
    assert bytes(inner[0]) == bytes(small)


def test_an_exception_of_a_batch_callback_propagates(client, small):
    told = []

    def ready(index, kernel):
        told.append(index)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        client.fetch_batch([small.key, UNKNOWN, small.key], ready=ready)
    assert len(told) == 1


def test_an_exception_of_a_batch_callback_ends_the_batch(client, small, monkeypatch):
    """The callback must stop libkiln, so that it does not wait or compile in vain."""
    ends = []
    original = kiln.client.call

    def call(name, *arguments):
        try:
            original(name, *arguments)
        except kiln.KilnError as error:
            ends.append((name, error.code))
            raise

    def ready(index, kernel):
        raise KeyError("mine")

    monkeypatch.setattr(kiln.client, "call", call)
    with pytest.raises(KeyError, match="mine"):
        client.fetch_batch([small.key, UNKNOWN], ready=ready)
    assert ends == [("kiln_kernel_fetch_batch", kiln.ErrorCode.CANCELLED)]


def test_a_batch_that_fails_as_a_whole_raises(tmp_path):
    with kiln.Client(tmp_path / "none.sock") as client:
        with pytest.raises(kiln.UnavailableError):
            client.fetch_batch([UNKNOWN])
