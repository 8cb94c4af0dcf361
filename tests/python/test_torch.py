# SPDX-License-Identifier: MIT
"""Tests kiln.torch with PyTorch on the CPU and a fake accelerator instead of kilnd and a GPU."""
import contextlib
import ctypes
import dataclasses
import gc
import os
import struct
import subprocess
import sys
import threading
import types
import weakref

import pytest

torch = pytest.importorskip("torch", reason="no PyTorch for this Python")

import kiln  # noqa: E402
import kiln.torch  # noqa: E402
from conftest import SOURCE, join  # noqa: E402
from kiln import Direction, Layout  # noqa: E402
from kiln.torch import _choice, _native, _operators, _prepare, _tensors  # noqa: E402
from kiln.torch._choice import State, TRIALS_MAX  # noqa: E402
from kiln.torch._operators import Operators  # noqa: E402

F = torch.nn.functional
IMPORT_MAX_S = 600  # on a loaded machine, importing PyTorch takes a minute
KINDS = {0: torch.float32, 1: torch.float16, 2: torch.bfloat16}


class FakeRun:
    """Computes a problem with PyTorch's own operators, on the memory of the given pointers."""

    solver, config, code = "FakeSolver", "1", "code"

    def __init__(self, fake, problem):
        self.fake, self.problem = fake, problem
        self.workspace = fake.workspace
        fake.runs.append(self)
        self.pointer = len(fake.runs)

    def tensor(self, pointer, shape):
        size = KINDS[self.problem.type].itemsize if hasattr(torch.float32, "itemsize") else \
            torch.tensor([], dtype=KINDS[self.problem.type]).element_size()
        count = torch.Size(shape).numel()
        memory = (ctypes.c_char * (count * size)).from_address(pointer)
        flat = torch.frombuffer(memory, dtype=KINDS[self.problem.type])
        if self.problem.x_layout is Layout.CHANNELS_FIRST:
            return flat.view(shape)
        return flat.view(shape[0], *shape[2:], shape[1]).movedim(-1, 1)

    def launch(self, x, w, y, workspace, stream):
        assert bool(workspace) == bool(self.workspace)
        self.fake.launches += 1
        self.fake.streams.append(stream)
        if self.fake.launch_error:
            raise self.fake.launch_error
        if self.fake.is_idle:
            return
        p = self.problem
        x = self.tensor(x, (p.n, p.c, *p.input))
        w = self.tensor(w, (p.k, p.c // p.groups, *p.filter))
        y = self.tensor(y, (p.n, p.k, *p.output))
        rest = (p.stride, p.pad, p.dilation, False, [0] * len(p.input), p.groups)
        operators = self.fake.operators
        if p.direction is Direction.FORWARD:
            y.copy_(operators._forward(x, w, None, *rest))
        else:
            is_data = p.direction is Direction.BACKWARD_DATA
            made = operators._backward(y, x, w, None, *rest, [is_data, not is_data, False])
            (x if is_data else w).copy_(made[0] if is_data else made[1])
        if self.fake.is_wrong_tile:
            y.view(-1)[:16].zero_()
        if self.fake.is_wrong:
            {Direction.FORWARD: y, Direction.BACKWARD_DATA: x}.get(p.direction, w).mul_(1.1)


class FakeAccelerator:
    """A fake kilnd and GPU. Each thread has a current stream. A convolution takes |kiln_us| with
    kiln, and 10 us with PyTorch."""

    def __init__(self):
        self.asked, self.batches, self.loads, self.launches = [], [], 0, 0
        self.kiln_us, self.workspace = 5.0, 64
        self.capturing = self.is_wrong = self.is_wrong_tile = self.is_idle = False
        self.launch_error = self.load_error = None
        self.refusals, self.packages, self.without_packages = [], True, 0
        self.records, self.answers_at_once = {}, False
        self.streams, self.current = [], threading.local()
        self.runs, self.native_launches, self.devices = [], 0, []
        self._functions = (_native._Launch(self.native_launch), _native._Stream(self.native_stream))
        self.operators = Operators(self, "CPU")

    @contextlib.contextmanager
    def on_device(self, index):
        self.devices.append(index)
        yield
        self.devices.append("left")

    def native_functions(self):
        return tuple(ctypes.cast(f, ctypes.c_void_p).value for f in self._functions)

    def native_launch(self, pointer, tensors, _):
        """Stands for kiln_run_launch_native()."""
        _, x, w, y, workspace, _, stream = struct.unpack("@NPPPPQP", ctypes.string_at(tensors, 56))
        try:
            self.runs[pointer - 1].launch(x, w, y, workspace, stream)
        except Exception:
            return 1
        self.native_launches += 1
        return 0

    def native_stream(self, index, place):
        ctypes.c_void_p.from_address(place).value = self.stream(index)
        return 0

    def ask(self, index, requests, packages=True):
        self.without_packages += 0 if packages else len(requests)
        self.batches.append(len(requests))
        for problem, done in requests:
            if self.answers_at_once:
                done(problem)
            else:
                self.asked.append((problem, done))

    def recall(self, index, key):
        return self.records.get(key)

    def record(self, index, key, record):
        self.records[key] = record

    def answer(self, answer=None):
        """Answers all requests with a plan, or with |answer|."""
        for problem, done in self.asked:
            done(answer or problem)
        count = len(self.asked)
        self.asked = []
        return count

    def leave_packages(self, index):
        self.packages = False

    def load(self, index, plan):
        self.loads += 1
        if self.load_error:
            raise self.load_error
        if self.refusals:
            raise self.refusals.pop()
        return FakeRun(self, plan)

    def stream(self, index):
        return getattr(self.current, "stream", 7)

    def is_capturing(self):
        return self.capturing

    def times(self, index, first, second):
        first()
        second()
        return 10.0, self.kiln_us

    def states(self):
        return {choice.state for choice in self.operators.choices.values()}

    def reasons(self):
        return {choice.reason for choice in self.operators.choices.values()}


_the_fake = None


def make_native(fake):
    """Makes C operators with an empty table."""
    return _native.Native("CPU", _operators.OPERATORS, fake.native_functions)


def why_not_in_c():
    """Returns why the C operators cannot be tested with this PyTorch, or ""."""
    try:
        make_native(FakeAccelerator())
    except _native.Unavailable as reason:
        return f"the C operators are unavailable: {reason}"
    return ""


WHY_NOT_IN_C = why_not_in_c()
LANGUAGES = ["Python"] if WHY_NOT_IN_C else ["Python", "C"]


@pytest.fixture(params=LANGUAGES)
def fake(request, monkeypatch):
    """The fake accelerator. All tests share its operators, because a process has one set of
    them."""
    global _the_fake
    if _the_fake is None:
        _the_fake = FakeAccelerator()
    fresh, operators = _the_fake, _the_fake.operators
    fresh.__dict__.update(asked=[], batches=[], loads=0, launches=0, kiln_us=5.0, workspace=64,
                          capturing=False, is_wrong=False, is_wrong_tile=False, is_idle=False,
                          launch_error=None, load_error=None, refusals=[], packages=True,
                          without_packages=0,
                          records={}, answers_at_once=False,
                          streams=[], current=threading.local(), native_launches=0, devices=[])
    monkeypatch.setattr(_choice, "names_of_plan", lambda plan: ("FakeSolver", "1", "code"))
    monkeypatch.setattr(_operators, "RECALL_WAIT_S", 0.01)
    operators._recall_wait_s = 0.01
    operators.choices.clear()
    operators.outputs.clear()
    operators.gradients.clear()
    operators.errors.clear()
    if request.param == "C":
        operators._native = make_native(fresh)
    operators.start()
    monkeypatch.setattr(kiln.torch, "_replaced", operators)
    yield fresh
    operators.stop()
    operators._native = None


@contextlib.contextmanager
def without_kiln(fake):
    fake.operators.stop()
    try:
        yield
    finally:
        fake.operators.start()


def step(run, x, w, bias=None):
    """Runs forward and backward. Returns the output and the gradients."""
    leaves = [t.detach().requires_grad_() for t in (x, w, bias) if t is not None]
    y = run(*leaves)
    torch.manual_seed(1)
    y.backward(torch.randn_like(y))
    return [y.detach(), *(leaf.grad for leaf in leaves)]


def learn(fake, run, *tensors):
    """Runs two steps, in which kiln makes all choices. Returns the results of the second one."""
    step(run, *tensors)
    assert fake.answer() > 0
    return step(run, *tensors)


LAST = torch.channels_last
CASES = {
    "2d": ((2, 8, 9, 9), (4, 8, 3, 3), lambda x, w, b: F.conv2d(x, w, b, padding=1)),
    "same": ((2, 8, 9, 9), (4, 8, 3, 3), lambda x, w, b: F.conv2d(x, w, b, padding="same")),
    "strided": ((2, 8, 9, 8), (4, 8, 3, 3),
                lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), dilation=(1, 2), padding=(1, 0))),
    "groups": ((2, 8, 9, 9), (4, 4, 3, 3), lambda x, w, b: F.conv2d(x, w, b, groups=2)),
    "depthwise": ((2, 8, 9, 9), (8, 1, 3, 3), lambda x, w, b: F.conv2d(x, w, b, groups=8)),
    "1d": ((2, 8, 30), (4, 8, 3), lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1)),
    "3d": ((2, 4, 5, 6, 7), (4, 4, 3, 3, 3), lambda x, w, b: F.conv3d(x, w, b, padding=1)),
    "transposed": ((2, 8, 5, 5), (8, 4, 3, 3),
                   lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1,
                                                      output_padding=1)),
    "transposed groups": ((2, 8, 5, 5), (8, 2, 3, 3),
                          lambda x, w, b: F.conv_transpose2d(x, w, b, groups=2)),
    "1x1": ((2, 8, 9, 9), (4, 8, 1, 1), lambda x, w, b: F.conv2d(x, w, b)),
}


def tensors_of(name, with_bias=False):
    torch.manual_seed(0)
    x, w, _ = CASES[name]
    outputs = w[1] * 2 if name == "transposed groups" else w[1] if name == "transposed" else w[0]
    bias = torch.randn(outputs) if with_bias else None
    return torch.randn(x), torch.randn(w), bias


@pytest.mark.parametrize("with_bias", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("form", [None, LAST], ids=["first", "last"])
@pytest.mark.parametrize("name", CASES)
def test_kiln_runs_all_directions_with_the_results_and_strides_of_pytorch(fake, name, form,
                                                                          with_bias):
    x, w, bias = tensors_of(name, with_bias)
    if form and x.dim() == 4:
        x, w = x.contiguous(memory_format=form), w.contiguous(memory_format=form)

    def run(x, w, b=None):
        return CASES[name][2](x, w, b)

    with without_kiln(fake):
        wanted = step(run, x, w, bias)
    learn(fake, run, x, w, bias)
    assert fake.states() == {State.KILN}, fake.reasons()
    before = fake.launches
    made = step(run, x, w, bias)
    assert fake.launches == before + 3
    again, launches = step(run, x, w, bias), fake.native_launches
    step(run, x, w, bias)
    assert fake.native_launches - launches == (3 if fake.operators._native else 0)
    assert all(map(torch.equal, again, made))
    assert sum(c.kiln_calls for c in fake.operators.choices.values()) == 9
    assert fake.operators.errors == []
    for one, other in zip(made, wanted):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
        assert one.stride() == other.stride()


def simple(x, w, b=None):
    return F.conv2d(x, w, b, padding=1)


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(2, 8, 9, 9)


@pytest.fixture
def w():
    torch.manual_seed(1)
    return torch.randn(4, 8, 3, 3)


def test_operands_that_are_not_contiguous_are_copied(fake, x, w):
    x = x.transpose(2, 3)[:, :, 1:]
    with without_kiln(fake):
        wanted = step(simple, x, w)
    learn(fake, simple, x, w)
    step(simple, x, w)
    made = step(simple, x, w)
    assert fake.states() == {State.KILN}, fake.reasons()
    assert fake.launches == 15 and fake.native_launches == (3 if fake.operators._native else 0)
    for one, other in zip(made, wanted):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_the_call_that_chooses_kiln_returns_its_result(fake, x, w, monkeypatch):
    places, compute = set(), _choice.Choice.compute

    def note(*args, **keywords):
        made = compute(*args, **keywords)
        places.add(made.data_ptr())
        return made

    monkeypatch.setattr(_choice.Choice, "compute", note)
    made = learn(fake, simple, x, w)
    assert fake.states() == {State.KILN}, fake.reasons()
    assert all(tensor.data_ptr() in places for tensor in made)


def test_until_the_plan_is_there_pytorch_runs(fake, x, w):
    for _ in range(3):
        step(simple, x, w)
    assert fake.launches == 0 and len(fake.asked) == 3
    assert fake.states() == {State.ASKED}


def test_other_sizes_strides_or_flags_are_another_choice(fake, x, w, monkeypatch):
    with torch.no_grad():
        simple(x, w)
        simple(x[:1], w)
        F.conv2d(x, w, padding=2)
        simple(x.contiguous(memory_format=LAST), w)
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32",
                            not torch.backends.cudnn.allow_tf32)
        simple(x, w)
        simple(x, w)
    assert len(fake.operators.choices) == 5
    assert [problem.allow_tf32 for problem, _ in fake.asked] in ([True] * 4 + [False],
                                                                [False] * 4 + [True])


def test_the_precision_of_convolutions_alone_allows_tf32(fake, x, w, monkeypatch):
    precisions = {("cuda", "conv"): "tf32", ("cuda", "rnn"): "ieee"}
    monkeypatch.setattr(torch._C, "_get_fp32_precision_getter",
                        lambda backend, of: precisions[backend, of], raising=False)
    monkeypatch.setattr(torch._C, "_get_cudnn_allow_tf32", lambda: 1 // 0)
    monkeypatch.setattr(_operators, "_get_tf32", _operators._tf32_getter())
    with torch.no_grad():
        simple(x, w)
        precisions["cuda", "conv"] = "ieee"
        simple(x, w)
    assert [problem.allow_tf32 for problem, _ in fake.asked] == [True, False]
    assert fake.operators.errors == []


def test_without_a_gpus_pytorch_the_installation_fails(monkeypatch):
    from kiln.torch import _cuda

    monkeypatch.delattr(torch._C, "_cuda_getCurrentRawStream", raising=False)
    with pytest.raises(RuntimeError, match="without CUDA and ROCm"):
        _cuda.Cuda(None)


def test_pytorch_runs_what_kiln_is_slower_at(fake, x, w):
    fake.kiln_us = 9.9
    learn(fake, simple, x, w)
    assert fake.states() == {State.ORIGINAL} and fake.reasons() == {"not faster by 3 %"}
    launches = fake.launches
    with without_kiln(fake):
        wanted = step(simple, x, w)
    for _ in range(3):
        assert all(map(torch.equal, step(simple, x, w), wanted))
    assert fake.launches == launches
    assert [c.original_calls for c in fake.operators.choices.values()] == [5, 5, 5]


def in_c(fake):
    if fake.operators._native is None:
        pytest.skip(WHY_NOT_IN_C or "tests the operators in C")


def test_all_tests_run_with_both_languages():
    if WHY_NOT_IN_C:
        pytest.skip(WHY_NOT_IN_C)


def test_what_is_decided_does_not_pass_through_python(fake, x, w, monkeypatch):
    in_c(fake)
    learn(fake, simple, x, w)
    step(simple, x, w)
    monkeypatch.setattr(fake.operators, "_output", lambda *rest: 1 // 0)
    monkeypatch.setattr(fake.operators, "_gradients", lambda *rest: 1 // 0)
    step(simple, x, w)
    for choice in fake.operators.choices.values():
        choice.settle("slower")
    step(simple, x, w)
    assert fake.native_launches == 3 and fake.operators.errors == []


@pytest.mark.parametrize("wrong", [{"padding": -2**63}, {"stride": -2**63},
                                   {"groups": -2**62 - 1}], ids=lambda wrong: next(iter(wrong)))
def test_the_smallest_integers_are_an_error_as_in_pytorch(fake, x, w, wrong):
    with pytest.raises(RuntimeError):
        F.conv2d(x, w, **wrong)


@pytest.mark.parametrize("name", ["stride", "padding", "dilation"])
def test_an_error_shows_a_long_list_as_in_pytorch(fake, x, w, name):
    with pytest.raises(RuntimeError) as error:
        F.conv2d(x, w, **{name: list(range(1, 12))})
    assert str(list(range(1, 12))) in str(error.value)


def test_a_wrong_call_that_wants_no_gradient_is_an_error_as_in_pytorch(fake, x, w):
    for _ in range(3):
        with pytest.raises(RuntimeError):
            torch.ops.aten.convolution_backward(x, x, w, None, [1, 1, 1], [0, 0], [1, 1], False,
                                                [0, 0], 1, [False] * 3)


@pytest.mark.parametrize("mask", [[], [True, True], [True] * 4], ids=len)
def test_in_inference_mode_a_wrong_mask_is_an_error_as_in_pytorch(fake, x, w, mask):
    dy = torch.randn(2, 4, 9, 9)
    with torch.inference_mode(), pytest.raises(RuntimeError, match=f"{len(mask)} elements"):
        torch.ops.aten.convolution_backward(dy, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0],
                                            1, mask)


def test_pytorchs_gradients_run_on_the_tensors_device(fake, x, w, monkeypatch):
    seen = []
    monkeypatch.setattr(fake.operators, "_any_backward", lambda dy, *rest: seen.append(
        list(fake.devices)) or (None, None, None))
    fake.operators._backward(torch.empty(1), x, w)
    assert seen == [[None]] and fake.devices == [None, "left"]


def test_an_exception_of_pythons_operator_keeps_its_type(fake, x, w, monkeypatch):
    class Stop(BaseException):
        pass

    def stop(*rest):
        raise Stop

    monkeypatch.setattr(fake, "recall", stop)
    for _ in range(2):
        with pytest.raises(Stop):
            simple(x, w)


def test_both_languages_read_pytorchs_flags(fake, monkeypatch):
    in_c(fake)
    native = fake.operators._native
    for name in ("benchmark", "deterministic", "enabled", "allow_tf32"):
        for value in (True, False):
            with monkeypatch.context() as patch:
                patch.setattr(torch.backends.cudnn, name, value)
                assert native.flags() == _operators._flags()
    torch.use_deterministic_algorithms(True)
    try:
        assert native.flags() == _operators._flags() and native.flags()[1]
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("is_copied", [False, True], ids=["", "copied"])
@pytest.mark.parametrize("kiln_us", [5.0, 9.9], ids=["kiln", "PyTorch"])
def test_calls_in_c_hold_no_reference_to_a_tensor(fake, x, w, kiln_us, is_copied):
    in_c(fake)
    fake.kiln_us = kiln_us
    x = x.transpose(2, 3) if is_copied else x
    bias, dy = torch.randn(4), torch.randn(2, 4, 9, 9)
    rest = [1, 1], [1, 1], [1, 1], False, [0, 0], 1

    def references():
        made = [torch.ops.aten.convolution(x, w, bias, *rest),
                *torch.ops.aten.convolution_backward(dy, x, w, [4], *rest, [True] * 3)]
        return [t._use_count() for t in (x, w, bias, dy, *made)]

    with without_kiln(fake):
        wanted = references()
    references()
    fake.answer()
    for _ in range(4):
        assert references() == wanted
    assert fake.native_launches == (6 if kiln_us == 5.0 else 0)


@pytest.mark.parametrize("version, key, machine, wish, reason", [
    ("2.14.1", "CUDA", "x86_64", "", "not tested with PyTorch 2.14.1 on CUDA"),
    ("2.11.0", "CPU", "x86_64", "", "not tested with PyTorch 2.11.0 on CPU"),
    ("2.140.0", "CPU", "x86_64", "", "not tested with PyTorch 2.140.0 on CPU"),
    ("2.14.0a0+git1", "CPU", "x86_64", "", "not tested with PyTorch 2.14.0a0+git1 on CPU"),
    ("2.14.1", "CPU", "aarch64", "", "not tested on aarch64"),
    ("2.14.1", "CPU", "x86_64", "python", "KILN_TORCH_OPERATOR is 'python'")])
def test_where_the_c_operators_were_not_tested_python_runs(fake, monkeypatch, version, key, machine,
                                                           wish, reason):
    monkeypatch.setattr(torch, "__version__", version)
    monkeypatch.setattr(_native.platform, "machine", lambda: machine)
    monkeypatch.setenv("KILN_TORCH_OPERATOR", wish)
    operators = _operators.make_operators(fake, key)
    assert operators._native is None and reason in operators.language
    monkeypatch.setattr(kiln.torch, "_replaced", operators)
    assert f"operators: {operators.language}" in kiln.torch.report()


@pytest.mark.parametrize("version, key", [("2.11.0+cu130", "CUDA"), ("2.14.1", "CPU")])
def test_where_the_c_operators_were_tested_they_are_the_default(monkeypatch, version, key):
    monkeypatch.setattr(torch, "__version__", version)
    monkeypatch.setattr(_native.platform, "machine", lambda: "x86_64")
    monkeypatch.delenv("KILN_TORCH_OPERATOR", raising=False)
    _native._check(key, ())


def test_on_rocm_the_c_operators_are_not_the_default(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.11.0+rocm7.0")
    monkeypatch.setattr(torch.version, "hip", "7.0")
    monkeypatch.setattr(_native.platform, "machine", lambda: "x86_64")
    monkeypatch.delenv("KILN_TORCH_OPERATOR", raising=False)
    with pytest.raises(_native.Unavailable, match="not tested with PyTorch 2.11.0.rocm7.0 on CUDA"):
        _native._check("CUDA", ())


@pytest.mark.parametrize("name", [*_operators.OPERATORS, "_convolution"])
def test_where_pytorchs_own_operators_are_replaced_python_runs(fake, monkeypatch, name):
    monkeypatch.setattr(_native.platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("KILN_TORCH_OPERATOR", "c")
    fake.operators.stop()
    theirs = torch.library.Library("aten", "IMPL")
    theirs.impl(name, lambda *rest: None, _native.ORIGINAL)
    language = _operators.make_operators(fake, "CPU").language
    assert f"aten::{name} is replaced for {_native.ORIGINAL}" in language


def test_without_libkiln_torch_pythons_operators_are_used(fake, monkeypatch):
    in_c(fake)
    monkeypatch.setattr(_native, "NAME", "libkiln-missing.so.0")
    fake.operators.stop()
    assert "cannot load libkiln-missing.so.0" in _operators.make_operators(fake, "CPU").language


@pytest.mark.parametrize("error", [AttributeError, OSError, MemoryError])
def test_no_error_of_the_c_operators_fails_install(fake, monkeypatch, error):
    def fail(*rest):
        raise error("DispatchKeySet")

    fake.operators.stop()
    monkeypatch.setattr(_native, "_check", fail)
    operators = _operators.make_operators(fake, "CPU")
    assert operators._native is None
    assert f"unavailable: {error.__name__}: DispatchKeySet" in operators.language


def test_if_pytorch_refuses_the_c_operators_python_runs(fake, x, w, monkeypatch):
    in_c(fake)
    fake.operators.stop()
    language = fake.operators.language

    def fail():
        raise RuntimeError("refused")

    monkeypatch.setattr(fake.operators._native, "start", fail)
    fake.operators.start()
    assert "RuntimeError: refused" in fake.operators.language
    fake.operators.language = language
    learn(fake, simple, x, w)
    assert fake.launches > 0


def test_nothing_that_c_operators_use_is_freed(fake):
    in_c(fake)
    fake.operators.stop()
    operators = weakref.ref(_operators.make_operators(fake, "CPU"))
    gc.collect()
    assert operators() is not None


REPLACE = """
import torch, kiln.torch, test_torch
theirs = torch.library.Library("aten", "IMPL")
theirs.impl("convolution_backward", lambda *rest: None, "CPU")
fake = test_torch.FakeAccelerator()
fake.operators._native = test_torch.make_native(fake)
fake.operators.start()
assert fake.operators._native is not None
"""


def test_operators_in_c_replace_an_operator_without_a_warning(fake):
    in_c(fake)
    tests = os.path.dirname(os.path.abspath(__file__))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(
        [tests, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", REPLACE], env=environment, timeout=IMPORT_MAX_S,
                          stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0 and "Overriding" not in done.stderr, done.stderr


def test_a_pytorch_without_the_functions_uses_pythons_operators(fake, monkeypatch):
    monkeypatch.setenv("KILN_TORCH_OPERATOR", "c")
    monkeypatch.setattr(_native.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(_native, "of_pytorch", lambda name: None)
    fake.operators.stop()
    assert "has no function aoti_torch" in _operators.make_operators(fake, "CPU").language


class Watched(torch.Tensor):
    """A tensor that records the functions of PyTorch that are called with it."""

    seen = []

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        cls.seen.append(function.__name__)
        return super().__torch_function__(function, types, arguments, options or {})


def test_a_class_of_the_jobs_does_not_see_kilns_calls_of_pytorch(fake, x, w):
    for _ in range(4):
        leaf = x.as_subclass(Watched).requires_grad_()
        made = simple(leaf, w.requires_grad_()).as_subclass(torch.Tensor).sum()
        Watched.seen.clear()
        made.backward()
        fake.answer()
        assert Watched.seen == []
    assert fake.states() == {State.KILN}, fake.reasons()


def test_a_result_that_differs_is_never_used(fake, x, w):
    fake.is_wrong = True
    with without_kiln(fake):
        wanted = step(simple, x, w)
    step(simple, x, w)
    fake.answer()
    for _ in range(2):
        for one, other in zip(step(simple, x, w), wanted):
            assert torch.equal(one, other)
    assert fake.states() == {State.ORIGINAL}
    assert all("differ" in reason for reason in fake.reasons())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_wrong_tile_of_a_large_result_is_noticed(fake, dtype):
    torch.manual_seed(0)
    x, w = torch.randn(4, 8, 160, 160, dtype=dtype), torch.randn(16, 8, 1, 1, dtype=dtype)
    fake.is_wrong_tile = True
    with torch.no_grad():
        F.conv2d(x, w)
        fake.answer()
        F.conv2d(x, w)
    assert fake.states() == {State.ORIGINAL}
    assert all("an element differs by" in reason for reason in fake.reasons())


def test_results_of_16_bits_that_are_rounded_otherwise_agree(fake):
    torch.manual_seed(0)
    x = torch.rand(2, 64, 40, 40, dtype=torch.bfloat16)
    w = torch.rand(8, 64, 3, 3, dtype=torch.bfloat16)
    learn(fake, simple, x, w)
    assert fake.states() == {State.KILN}, fake.reasons()


def test_a_large_bias_does_not_hide_a_wrong_result(fake, x, w):
    fake.is_wrong = True
    with torch.no_grad():
        simple(x, w, torch.full((4,), 1e5))
        fake.answer()
        simple(x, w, torch.full((4,), 1e5))
    assert fake.states() == {State.ORIGINAL}
    assert all("differ" in reason for reason in fake.reasons())


def test_an_earlier_result_in_memory_does_not_pass_for_kilns(fake, x, w, monkeypatch):
    with without_kiln(fake), torch.no_grad():
        right = simple(x, w)
    monkeypatch.setattr(torch, "empty_like", lambda *rest, **options: right.clone())
    fake.is_idle = True
    with torch.no_grad():
        simple(x, w)
        fake.answer()
        simple(x, w)
    assert fake.states() == {State.ORIGINAL}
    assert all("differ by nan" in reason for reason in fake.reasons())


def test_a_call_with_unsuitable_memory_does_not_end_the_comparison(fake, x, w):
    with torch.no_grad():
        simple(x, w)
        fake.answer()
        fake.launch_error = kiln.InvalidError(kiln.ErrorCode.INVALID, "must be aligned")
        simple(x, w)
        assert fake.states() == {State.PLANNED}
        fake.launch_error = None
        simple(x, w)
    assert fake.states() == {State.KILN}


def test_one_thread_at_a_time_compares(fake, x, w, monkeypatch):
    times, calls = fake.times, []

    def times_with_another_call(index, first, second):
        calls.append(1)
        simple(x, w)  # stands for a call in another thread
        return times(index, first, second)

    monkeypatch.setattr(fake, "times", times_with_another_call)
    with torch.no_grad():
        simple(x, w)
        fake.answer()
        simple(x, w)
    assert calls == [1] and fake.states() == {State.KILN}


@pytest.mark.parametrize("value", [0.0, float("inf")])
@pytest.mark.parametrize("is_wrong", [False, True])
def test_results_that_are_zero_or_not_finite_are_compared_on_random_operands(fake, x, w, value,
                                                                           is_wrong):
    fake.is_wrong = is_wrong
    x = torch.full_like(x, value).requires_grad_()
    learn(fake, simple, x, w)
    assert fake.states() == {State.ORIGINAL if is_wrong else State.KILN}
    assert len(fake.records) == (0 if is_wrong else 3)


def test_random_operands_leave_the_jobs_random_numbers_alone(x, w):
    before = torch.get_rng_state()
    for made, tensor in zip(_tensors.random_like((x, w)), (x, w)):
        assert made.shape == tensor.shape and made.stride() == tensor.stride()
    assert torch.equal(torch.get_rng_state(), before)


def test_a_choice_for_images_of_one_pixel_is_kept(fake, w):
    """The strides of such results depend on how they were made."""
    x = torch.randn(2, 1, 1, 8).movedim(-1, 1).requires_grad_()
    w = torch.randn(4, 8, 1, 1).to(memory_format=torch.channels_last).requires_grad_()
    with without_kiln(fake):
        wanted = step(torch.nn.functional.conv2d, x, w)
    learn(fake, torch.nn.functional.conv2d, x, w)
    begin_another_process(fake)
    made = step(torch.nn.functional.conv2d, x, w)
    assert fake.states() == {State.KILN} and fake.launches == 3
    assert [t.stride() for t in made] == [t.stride() for t in wanted]


@pytest.mark.parametrize("what", ["plan", "load", "launch"])
def test_an_error_of_kiln_leaves_the_layer_to_pytorch(fake, x, w, what):
    error = kiln.UnavailableError(kiln.ErrorCode.UNAVAILABLE, "broken")
    fake.load_error = error if what == "load" else None
    fake.launch_error = error if what == "launch" else None
    with without_kiln(fake):
        wanted = step(simple, x, w)
    step(simple, x, w)
    fake.answer(error if what == "plan" else None)
    for _ in range(2):
        for one, other in zip(step(simple, x, w), wanted):
            assert torch.equal(one, other)
    assert fake.states() == {State.ORIGINAL} and fake.reasons() == {"broken"}


def test_an_error_after_the_choice_leaves_the_layer_to_pytorch(fake, x, w):
    learn(fake, simple, x, w)
    fake.launch_error = kiln.GpuFaultError(kiln.ErrorCode.GPU_FAULT, "broken")
    with without_kiln(fake):
        wanted = step(simple, x, w)
    for one, other in zip(step(simple, x, w), wanted):
        assert torch.equal(one, other)
    assert fake.states() == {State.ORIGINAL}


def test_memory_that_kiln_refuses_goes_to_pytorch_for_one_call(fake, x, w):
    learn(fake, simple, x, w)
    fake.launch_error = kiln.InvalidError(kiln.ErrorCode.INVALID, "must be aligned to 16 bytes")
    step(simple, x, w)
    assert fake.states() == {State.KILN}
    assert any("aligned" in error for error in fake.operators.errors)


def test_memory_that_is_always_misaligned_is_pytorchs_from_the_first_call(fake, x, w):
    def run(x, w):
        return simple(x.view(-1)[1:].view(1, 8, 9, 9), w)

    x = torch.randn(8 * 9 * 9 + 1)
    with without_kiln(fake):
        wanted = step(run, x, w)
    for one, other in zip(step(run, x, w), wanted):
        assert torch.equal(one, other)
    reasons = {choice.result: choice.reason for choice in fake.operators.choices.values()}
    assert "multiple of 16 bytes" in reasons["output"] and "multiple" in reasons["weight"]
    # only the gradient of the input is requested
    assert len(fake.asked) == 1 and fake.operators.errors == []


def begin_another_process(fake, answers_at_once=True):
    fake.operators.choices.clear()
    fake.operators.outputs.clear()
    fake.operators.gradients.clear()
    if fake.operators._native is not None:
        fake.operators.stop()
        fake.operators._native = make_native(fake)
        fake.operators.start()
    fake.loads = fake.launches = 0
    fake.answers_at_once = answers_at_once
    fake.operators._recall_wait_s = 0.01


@pytest.mark.parametrize("form", [torch.contiguous_format, LAST], ids=["first", "last"])
def test_a_later_process_uses_kiln_from_its_first_call(fake, x, w, form):
    x = x.contiguous(memory_format=form)
    with without_kiln(fake):
        wanted = step(simple, x, w)
    learn(fake, simple, x, w)
    assert len(fake.records) == 3
    begin_another_process(fake)
    made = step(simple, x, w)
    assert fake.launches == 3 and fake.states() == {State.KILN}
    for one, other in zip(made, wanted):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
        assert one.stride() == other.stride()


def test_a_later_process_does_not_wait_long_for_a_plan(fake, x, w):
    learn(fake, simple, x, w)
    begin_another_process(fake, answers_at_once=False)
    step(simple, x, w)
    assert fake.launches == 0 and fake.states() == {State.ASKED}
    fake.answer()
    step(simple, x, w)
    assert fake.states() == {State.KILN}


def test_a_later_process_times_again_only_what_has_another_plan(fake, x, w, monkeypatch):
    fake.kiln_us = 20.0
    learn(fake, simple, x, w)
    fake.kiln_us = 5.0
    begin_another_process(fake)
    step(simple, x, w)
    assert fake.launches == 0 and fake.reasons() == {"slower"}
    begin_another_process(fake)
    monkeypatch.setattr(_choice, "names_of_plan", lambda plan: ("FakeSolver", "2", "code"))
    step(simple, x, w)
    assert fake.states() == {State.KILN}
    assert {record.kiln for record in fake.records.values()} == {True}


def test_a_later_process_compares_and_times_another_plan_than_kilns(fake, x, w, monkeypatch):
    learn(fake, simple, x, w)
    begin_another_process(fake)
    fake.is_wrong = True
    monkeypatch.setattr(_choice, "names_of_plan", lambda plan: ("FakeSolver", "1", "other code"))
    with without_kiln(fake):
        wanted = step(simple, x, w)
    for one, other in zip(step(simple, x, w), wanted):
        assert torch.equal(one, other)
    assert fake.states() == {State.ORIGINAL}
    assert all("differ" in reason for reason in fake.reasons())


def test_after_one_wait_in_vain_a_later_process_waits_no_more(fake, x, w):
    learn(fake, simple, x, w)
    begin_another_process(fake, answers_at_once=False)
    with torch.no_grad():
        simple(x, w)
    assert fake.operators._recall_wait_s == 0


@pytest.fixture
def benchmark(monkeypatch):
    """cuDNN's benchmark mode, in which PyTorch searches for its fastest algorithm."""
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)


def learn_that_kiln_is_slower(fake, x, w, kiln_us=15.0):
    """Begins a process whose plans an earlier process found slower. Calls are on the default
    stream."""
    fake.kiln_us = kiln_us
    learn(fake, simple, x, w)
    assert fake.states() == {State.ORIGINAL}
    begin_another_process(fake)
    fake.current.stream = 0


def test_a_search_of_pytorchs_is_postponed_until_kiln_has_lost_its_time(fake, x, w, benchmark,
                                                                        monkeypatch):
    monkeypatch.setattr(_choice, "SEARCH_US", 12.0)
    learn_that_kiln_is_slower(fake, x, w)
    with without_kiln(fake):
        wanted = step(simple, x, w)
    for _ in range(2):
        for one, other in zip(step(simple, x, w), wanted):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert fake.launches == 6 and fake.states() == {State.POSTPONED}
    text = kiln.torch.report()
    assert "kiln runs 0 of 3 convolutions and 3 for now, 6 of 6 calls" in text
    assert "kiln for now output 15.0 us by kiln, 10.0 us by PyTorch  slower" in text
    for _ in range(2):  # kiln would have lost 15 us
        for one, other in zip(step(simple, x, w), wanted):
            assert torch.equal(one, other)
    assert fake.launches == 6 and fake.states() == {State.ORIGINAL}
    assert fake.reasons() == {"slower"}


def test_pytorch_does_not_search_if_its_algorithm_is_not_faster(fake, x, w, benchmark, monkeypatch):
    monkeypatch.setattr(_choice, "SEARCH_US", 0.0)
    learn_that_kiln_is_slower(fake, x, w, kiln_us=9.9)
    for _ in range(3):
        step(simple, x, w)
    assert fake.states() == {State.POSTPONED} and fake.reasons() == {"not faster by 3 %"}


def test_on_another_stream_pytorch_searches_at_once(fake, x, w, benchmark):
    learn_that_kiln_is_slower(fake, x, w)
    step(simple, x, w)
    assert fake.states() == {State.POSTPONED}
    fake.current.stream = 5
    fake.capturing = True
    step(simple, x, w)
    assert fake.launches == 6 and fake.states() == {State.POSTPONED}
    fake.capturing = False
    step(simple, x, w)
    assert fake.launches == 6 and fake.states() == {State.ORIGINAL}


def test_without_the_benchmark_mode_no_search_is_postponed(fake, x, w):
    learn_that_kiln_is_slower(fake, x, w)
    step(simple, x, w)
    assert fake.launches == 0 and fake.states() == {State.ORIGINAL}


def test_times_that_are_no_numbers_postpone_nothing(fake, x, w, benchmark):
    learn_that_kiln_is_slower(fake, x, w)
    for key, record in fake.records.items():
        fake.records[key] = dataclasses.replace(record, kiln_us=float("nan"))
    step(simple, x, w)
    assert fake.launches == 0 and fake.states() == {State.ORIGINAL}


def test_a_slower_plan_that_comes_late_is_not_compared_again(fake, x, w, benchmark):
    learn_that_kiln_is_slower(fake, x, w)
    fake.answers_at_once = False
    step(simple, x, w)
    fake.answer()
    step(simple, x, w)
    assert fake.launches == fake.loads == 0
    assert fake.states() == {State.ORIGINAL} and fake.reasons() == {"slower"}


class EndedWait:
    """An event whose wait always ends in vain."""

    def wait(self, timeout):
        return False

    def set(self):
        pass


def test_a_plan_that_arrives_when_the_wait_ends_is_used_by_the_planner(fake, x, w, monkeypatch):
    learn(fake, simple, x, w)
    begin_another_process(fake)
    arriving = []  # the planner's thread has set the plan, and not used it yet
    use_plan = _choice.Choice._use_plan

    def arrive(choice):
        arriving.append(choice)

    monkeypatch.setattr(_choice.Choice, "_use_plan", arrive)
    monkeypatch.setattr(_choice, "threading", types.SimpleNamespace(Event=EndedWait,
                                                                    Lock=threading.Lock))
    step(simple, x, w)
    assert fake.states() == {State.ASKED} and len(arriving) == 3
    for choice in arriving:
        use_plan(choice)
    step(simple, x, w)
    assert fake.states() == {State.KILN}


def test_an_answer_that_cannot_be_used_leaves_the_layer_to_pytorch(fake, x, w, monkeypatch):
    fake.kiln_us = 20.0
    learn(fake, simple, x, w)
    begin_another_process(fake, answers_at_once=False)
    monkeypatch.setattr(_choice, "names_of_plan", lambda plan: 1 // 0)
    step(simple, x, w)
    fake.answer()
    assert fake.states() == {State.ORIGINAL}


@pytest.mark.parametrize("damage", [
    lambda record: {"shape": (1, *record.shape[1:])},
    lambda record: {"shape": (*record.shape[:-1], record.shape[-1] + 1)},
    lambda record: {"shape": (1 << 70, *record.shape[1:])},
    lambda record: {"strides": (0, 0, 0, 0)},
    lambda record: {"last": not record.last}], ids=["batch", "width", "huge", "strides", "layout"])
def test_a_record_that_does_not_fit_is_replaced(fake, x, w, damage):
    """With a stride of 2, images of two widths have an output of the same width."""
    def strided(x, w):
        return F.conv2d(x, w, padding=1, stride=2)

    x = torch.randn(2, 8, 10, 10)
    learn(fake, strided, x, w)
    records = dict(fake.records)
    for key, record in records.items():
        fake.records[key] = dataclasses.replace(record, **damage(record))
    begin_another_process(fake, answers_at_once=False)
    with without_kiln(fake):
        wanted = step(strided, x, w)
    for one, other in zip(step(strided, x, w), wanted):
        assert torch.equal(one, other)
    assert fake.launches == 0 and fake.states() == {State.ASKED}
    fake.answer()
    step(strided, x, w)
    assert fake.states() == {State.KILN} and fake.records == records


def test_an_error_of_the_jobs_is_pytorchs_own(fake, x):
    with without_kiln(fake), pytest.raises(RuntimeError) as wanted:
        simple(x, torch.randn(4, 7, 3, 3))
    with pytest.raises(RuntimeError) as made:
        simple(x, torch.randn(4, 7, 3, 3))
    assert str(made.value) == str(wanted.value)


def test_a_bias_of_a_wrong_size_is_pytorchs_error_after_the_choice_too(fake, x, w):
    bias = torch.randn(4)
    learn(fake, simple, x, w, bias)
    with torch.no_grad(), pytest.raises(RuntimeError, match="bias"):
        simple(x, w, bias[:1])


def test_a_weight_on_another_device_is_another_choice(fake, x, w):
    learn(fake, simple, x, w)
    launches = fake.launches
    with torch.no_grad(), contextlib.suppress(RuntimeError, NotImplementedError):
        fake.operators.convolution(x, w.to("meta"), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    assert fake.launches == launches and fake.operators.errors == []
    assert "operands of two types or devices" in fake.reasons()


def test_while_a_graph_is_captured_nothing_is_planned_or_timed(fake, x, w):
    with torch.no_grad():
        fake.capturing = True
        simple(x, w)
        assert fake.asked == []
        fake.capturing = False
        simple(x, w)
        fake.answer()
        fake.capturing = True
        simple(x, w)
        assert fake.loads == 0 and fake.launches == 0
        fake.capturing = False
        simple(x, w)
        assert fake.states() == {State.KILN}
        fake.capturing = True
        before = fake.launches
        simple(x, w)
        assert fake.launches == before + 1


def test_kernels_go_to_the_stream_that_is_current_at_the_call(fake, x, w):
    learn(fake, simple, x, w)
    fake.streams.clear()
    with torch.no_grad():
        for stream in (1, 2, 1):
            fake.current.stream = stream
            simple(x, w)
    assert fake.streams == [1, 2, 1]


def test_threads_with_streams_of_their_own_share_a_choice(fake, x, w):
    learn(fake, simple, x, w)
    fake.streams.clear()
    with without_kiln(fake), torch.no_grad():
        wanted = simple(x, w)
    right = []

    def work(stream):
        fake.current.stream = stream
        with torch.no_grad():
            right.extend(torch.allclose(simple(x, w), wanted, atol=1e-4) for _ in range(20))

    threads = [threading.Thread(target=work, args=(stream,)) for stream in (1, 2)]
    for thread in threads:
        thread.start()
    join(*threads)
    assert right == [True] * 40 and sorted(fake.streams) == [1] * 20 + [2] * 20
    assert len(fake.operators.choices) == 3


class Images(torch.utils.data.Dataset):
    """Images that a worker process computes with a convolution. In the job itself, kiln may run
    that convolution, too."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        weight = torch.full((4, 8, 3, 3), 1.0 / 72)
        return simple(torch.full((1, 8, 9, 9), float(index)), weight)[0].detach()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_data_loaders_work_while_kiln_runs_the_job(fake, method):
    x, w = torch.ones(1, 8, 9, 9), torch.full((4, 8, 3, 3), 1.0 / 72)
    learn(fake, simple, x, w)
    with without_kiln(fake), torch.no_grad():
        wanted = [simple(x * i, w)[0] for i in range(4)]
    loader = torch.utils.data.DataLoader(Images(), num_workers=1, timeout=IMPORT_MAX_S,
                                         multiprocessing_context=method)
    with torch.no_grad():
        for batch, right in zip(loader, wanted):
            torch.testing.assert_close(batch[0], right, rtol=1e-4, atol=1e-4)
            before = fake.launches
            simple(x, w)
            assert fake.launches == before + 1


def test_pytorchs_convolution_gets_the_flag_benchmark(fake, x, w, monkeypatch):
    calls, original = [], torch._convolution
    monkeypatch.setattr(torch, "_convolution",
                        lambda *all_: calls.append(all_[9:]) or original(*all_))
    with torch.no_grad():
        for benchmark in (False, True):
            monkeypatch.setattr(torch.backends.cudnn, "benchmark", benchmark)
            simple(x, w)
    assert [flags[0] for flags in calls] == [False, True]
    assert len(fake.operators.choices) == 2


def test_deterministic_algorithms_are_deterministic_mode(fake, x, w):
    torch.use_deterministic_algorithms(True)
    try:
        step(simple, x, w)
    finally:
        torch.use_deterministic_algorithms(False)
    assert fake.asked == [] and all("deterministic" in reason for reason in fake.reasons())


def test_in_deterministic_mode_pytorch_runs_everything(fake, x, w, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    step(simple, x, w)
    assert fake.asked == [] and fake.states() == {State.ORIGINAL}
    assert all("deterministic" in reason for reason in fake.reasons())


def test_with_cudnn_switched_off_pytorch_runs_everything(fake, x, w, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "enabled", False)
    step(simple, x, w)
    assert fake.asked == [] and fake.states() == {State.ORIGINAL}


def test_types_without_a_problem_stay_with_pytorch(fake, x, w):
    step(simple, x.double(), w.double())
    assert fake.asked == [] and fake.reasons() == {"the type torch.float64"}


def test_only_the_gradients_that_are_wanted_are_computed(fake, x, w):
    def run():
        y = simple(x, w.requires_grad_())
        y.sum().backward()

    run()
    assert {choice.result for choice in fake.operators.choices.values()} == {"output", "weight"}


def test_where_only_the_bias_has_a_gradient_nothing_is_kept(fake, x, w):
    """The table of gradients would grow with each new size."""
    simple(x, w, torch.zeros(len(w), requires_grad=True)).sum().backward()
    assert not fake.operators.gradients


def test_a_host_that_refuses_memory_does_not_keep_the_layer_from_kiln(fake, x, w, monkeypatch):
    """The memory is never touched, but a host may refuse to reserve so much."""
    empty, refused = torch.empty_strided, []

    def refuse(*arguments, device, **options):
        if device == "cpu":
            refused.append(arguments)
            raise RuntimeError("not enough memory")
        return empty(*arguments, device=device, **options)

    monkeypatch.setattr(torch, "empty_strided", refuse)
    learn(fake, simple, x, w)
    assert refused and fake.states() == {State.KILN}


def test_gradients_agree_with_finite_differences(fake):
    torch.manual_seed(0)
    x, w = torch.randn(1, 2, 5, 5), torch.randn(2, 2, 3, 3)
    learn(fake, simple, x, w)
    assert fake.states() == {State.KILN}
    inputs = (x.requires_grad_(), w.requires_grad_())
    assert torch.autograd.gradcheck(simple, inputs, eps=1e-2, atol=1e-2, rtol=1e-2)


def test_the_report_names_what_runs_where(fake, x, w):
    learn(fake, simple, x, w)
    step(simple, x, w)
    step(simple, x.double(), w.double())
    known = kiln.torch.convolutions()
    assert {c.runs_by for c in known} == {"kiln", "PyTorch"}
    assert {c.kiln_calls for c in known if c.runs_by == "kiln"} == {1}
    text = kiln.torch.report()
    assert "kiln runs 3 of 6 convolutions, 3 of 12 calls" in text
    assert "FakeSolver" in text and "-n 2 -c 8" in text and "float64" in text


def test_the_report_says_if_no_convolution_has_run(fake):
    assert "no convolution has run on a GPU since install()" in kiln.torch.report()


def test_a_job_with_ever_new_sizes_is_left_to_pytorch_at_last(fake, x, w, monkeypatch):
    monkeypatch.setattr(_operators, "CHOICES_MAX", 2)
    with torch.no_grad():
        for padding in range(5):
            F.conv2d(x, w, padding=padding)
    assert len(fake.operators.choices) == 2 and fake.operators.errors == []


def test_strides_without_a_meaning_do_not_fill_the_memory(fake, monkeypatch):
    w = torch.randn(4, 1, 3, 3)
    monkeypatch.setattr(_operators, "CHOICES_MAX", 3)
    for stride in range(100, 110):
        x = torch.randn(2 * 100).as_strided((2, 1, 9, 9), (100, stride, 9, 1))
        step(lambda x, w: F.conv2d(x, w), x, w)
    operators = fake.operators
    assert len(operators.choices) == 3
    assert len(operators.outputs) <= 3 and len(operators.gradients) <= 3


def has_python_kernel(name):
    return torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CPU")


def test_after_uninstall_convolutions_do_not_pass_through_python(fake, x, w):
    for _ in range(2):
        kiln.torch.uninstall()
        assert not any(has_python_kernel(name) for name in _operators.OPERATORS)
    step(simple, x, w)
    assert fake.operators.choices == {}
    for _ in range(2):
        kiln.torch.install()
        assert all(has_python_kernel(name) for name in _operators.OPERATORS)
    step(simple, x, w)
    assert len(fake.operators.choices) == 3


class Network(torch.nn.Module):
    """A network with convolutions of several kinds, and the usual layers between them. |kind| is
    the class of one of the convolutions."""

    def __init__(self, kind=torch.nn.ConvTranspose2d):
        super().__init__()
        nn = torch.nn
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
            nn.Conv2d(8, 8, 3, stride=2, groups=8), nn.MaxPool2d(2), nn.Conv2d(8, 16, 1),
            kind(16, 8, 3, stride=2, padding=1), nn.Dropout(), nn.AdaptiveAvgPool2d(1))
        self.last = nn.Linear(8, 4)

    def forward(self, x):
        return self.last(self.layers(x).flatten(1))


def train(model, x):
    F.cross_entropy(model(x), torch.tensor([1] * len(x))).backward()


@pytest.fixture
def images():
    torch.manual_seed(1)
    return torch.randn(2, 3, 16, 16)


# PyTorch's CPU never returns a transposed convolution's result with channels last.
@pytest.mark.parametrize("form,kind", [
    (torch.contiguous_format, torch.nn.ConvTranspose2d), (LAST, torch.nn.Conv2d)],
    ids=["first", "last"])
def test_a_prepared_step_requests_no_plan(fake, images, form, kind):
    model, images = Network(kind).to(memory_format=form), images.contiguous(memory_format=form)
    # 11 plans: 4 for outputs, 4 for gradients of weights, and 3 for gradients of inputs. The first
    # of the 4 convolutions needs no gradient of its input, |images|.
    assert kiln.torch.prepare(model, images) == 11
    assert fake.batches == [11] and fake.launches == 0 and fake.operators.errors == []
    assert fake.answer() == 11
    assert fake.loads == 11 and fake.states() == {State.PLANNED}
    train(model, images)
    assert fake.batches == [11] and fake.loads == 11 and fake.states() == {State.KILN}


class Squeeze(torch.nn.Module):
    """Layers with images of one pixel, the strides of which have no meaning, and a gradient whose
    strides differ from those of the normalized input."""

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.first = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.SiLU())
        self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(32, 8, 1), nn.SiLU(),
                                   nn.Conv2d(8, 32, 1), nn.Sigmoid())
        self.last = nn.Sequential(nn.Conv2d(32, 4, 1), nn.BatchNorm2d(4), nn.SiLU(),
                                  nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, x):
        x = self.first(x)
        return self.last(self.scale(x) * x)


def test_for_images_of_one_pixel_a_prepared_step_requests_no_plan(fake, images):
    model, images = Squeeze().to(memory_format=LAST), images.contiguous(memory_format=LAST)
    count = kiln.torch.prepare(model, images)
    assert count == 11 and fake.answer() == count
    train(model, images)
    assert fake.batches == [count] and fake.states() == {State.KILN}, fake.reasons()


@pytest.mark.parametrize("form", [torch.contiguous_format, LAST], ids=["first", "last"])
def test_results_have_pytorchs_strides_if_prepare_assumed_others(fake, x, w, form, monkeypatch):
    model = torch.nn.Conv2d(8, 4, 3, padding=1, bias=False).to(memory_format=form)
    x = x.contiguous(memory_format=form)

    def run(x):
        return step(lambda x, w: F.conv2d(x, w, padding=1), x, model.weight)

    with without_kiln(fake):
        wanted = run(x)
    other = LAST if form is torch.contiguous_format else torch.contiguous_format
    monkeypatch.setattr(_prepare, "_new", lambda shape, x, w: x.new_empty(shape).to(
        memory_format=other))
    assert kiln.torch.prepare(model, x) == 2
    fake.answer()
    for _ in range(3):
        made = run(x)
        fake.answer()
    used = {choice.state for choice in fake.operators.choices.values() if choice.original_calls}
    assert used == {State.KILN} and fake.launches > 0
    assert [t.stride() for t in made] == [t.stride() for t in wanted]
    for one, two in zip(made, wanted):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)


def test_to_prepare_twice_requests_once(fake, images):
    model = Network()
    for _ in range(2):
        assert kiln.torch.prepare(model, (images,)) == 11
    assert fake.batches == [11]


def test_to_prepare_does_not_change_the_model(fake, images):
    model = Network()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(5)
    wanted = torch.rand(1)
    torch.manual_seed(5)
    kiln.torch.prepare(model, images)
    assert torch.equal(torch.rand(1), wanted)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None and p.device.type == "cpu" for p in model.parameters())


def test_without_gradients_only_outputs_are_prepared(fake, images):
    with torch.no_grad():
        assert kiln.torch.prepare(Network(), images) == 4
    assert {choice.result for choice in fake.operators.choices.values()} == {"output"}


def test_a_prepared_step_of_a_later_process_runs_by_kiln(fake, images):
    model = Network()
    train(model, images)
    fake.answer()
    train(model, images)
    begin_another_process(fake, answers_at_once=False)
    kiln.torch.prepare(model, images)
    fake.answer()
    assert fake.states() == {State.KILN} and fake.launches == 0
    train(model, images)
    assert fake.launches == 11
    assert {choice.original_calls for choice in fake.operators.choices.values()} == {0}


def test_a_prepared_step_of_a_later_process_postpones_searches(fake, images, benchmark):
    model = Network()
    fake.kiln_us = 15.0
    train(model, images)
    fake.answer()
    train(model, images)
    begin_another_process(fake, answers_at_once=False)
    fake.current.stream = 0
    kiln.torch.prepare(model, images)
    fake.answer()
    assert fake.states() == {State.POSTPONED} and fake.launches == 0
    train(model, images)
    assert fake.launches == 11 and fake.states() == {State.POSTPONED}


class Compiled(torch.nn.Module):
    """A module like that of torch.compile, which PyTorch 1.13 does not have."""

    def __init__(self, model):
        super().__init__()
        self._orig_mod = model

    def forward(self, x):
        pytest.fail("prepare() has called the compiled model")


class Exported:
    """A program like that of torch.export, which PyTorch 1.13 does not have."""

    def __init__(self, model):
        self._model = model

    def module(self):
        return self._model


@pytest.mark.parametrize("wrap", [Compiled, Exported, torch.nn.DataParallel, torch.jit.script,
                                  lambda model: Compiled(torch.nn.DataParallel(model))],
                         ids=["compile", "export", "parallel", "script", "two"])
def test_a_wrapped_model_is_prepared_like_the_model(fake, images, wrap):
    assert kiln.torch.prepare(wrap(Network()), images) == 11
    assert fake.batches == [11] and fake.operators.errors == []
    fake.answer()
    train(Network(), images)
    assert fake.batches == [11] and fake.states() == {State.KILN}


def test_of_a_traced_model_the_gradients_are_prepared(fake, images):
    """A traced model calls aten::_convolution, which kiln.torch does not replace."""
    with without_kiln(fake):
        model = torch.jit.trace(Network().eval(), images)
    assert kiln.torch.prepare(model, images) == 7 and fake.operators.errors == []
    assert {choice.result for choice in fake.operators.choices.values()} == {"input", "weight"}
    fake.answer()
    train(model, images)
    assert fake.batches == [7] and fake.states() == {State.KILN}


@pytest.mark.parametrize("is_decided", [False, True])
def test_the_trace_of_a_model_is_the_same_as_without_kiln(fake, x, is_decided):
    model = torch.nn.Conv2d(8, 4, 3)

    def trace():
        made = torch.jit.trace(model, x, check_trace=False)
        return [node.kind() for node in made.inlined_graph.nodes()]

    with without_kiln(fake):
        wanted = trace()
    if is_decided:
        learn(fake, F.conv2d, x, model.weight, model.bias)
        step(F.conv2d, x, model.weight, model.bias)
        fake.is_idle = True  # the fake kernels would be part of the trace
    for _ in range(3):
        assert trace() == wanted
    assert fake.operators.errors == []


def test_with_autocast_the_types_are_autocasts(fake, images, monkeypatch):
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *rest: True)
    monkeypatch.setattr(torch, "get_autocast_gpu_dtype", lambda: torch.bfloat16)
    kiln.torch.prepare(Network(), images)
    assert {problem.type for problem, _ in fake.asked} == {kiln.DataType.BFLOAT16}


def test_what_comes_before_an_operation_on_values_is_prepared(fake, images):
    class Depends(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = (torch.nn.Conv2d(3, 3, 1) for _ in range(2))

        def forward(self, x):
            x = self.first(x)
            return self.second(x) if x.sum().item() > 0 else x

    assert kiln.torch.prepare(Depends(), images) == 1
    assert fake.batches == [1] and len(fake.operators.errors) == 1
    text = kiln.torch.report()
    assert "error: prepare() knows the 1 convolutions before the point where the model" in text


@pytest.mark.parametrize("refusal", [
    kiln.CorruptError(kiln.ErrorCode.CORRUPT, "too new"),
    kiln.UnsupportedError(kiln.ErrorCode.UNSUPPORTED, "too new"),
])
def test_kernels_of_packages_that_the_driver_refuses_are_compiled(fake, x, w, refusal):
    fake.refusals = 3 * [refusal]
    step(simple, x, w)
    assert fake.answer() == 3
    step(simple, x, w)
    assert fake.states() == {State.ASKED}
    assert fake.packages and fake.without_packages == 3
    assert fake.answer() == 3
    step(simple, x, w)
    assert fake.states() == {State.KILN} and not fake.packages


def test_kernels_of_packages_are_replaced_in_the_background(fake, images):
    fake.refusals = [kiln.CorruptError(kiln.ErrorCode.CORRUPT, "too new")]
    fake.answers_at_once = True
    kiln.torch.prepare(Network(), images)
    assert fake.states() == {State.PLANNED} and not fake.packages


def test_a_layer_is_pytorchs_if_the_driver_refuses_compiled_kernels_too(fake, x, w):
    fake.load_error = kiln.CorruptError(kiln.ErrorCode.CORRUPT, "too new")
    step(simple, x, w)
    fake.answer()
    step(simple, x, w)
    fake.answer()
    step(simple, x, w)
    assert fake.states() == {State.ORIGINAL} and fake.reasons() == {"too new"}
    assert fake.answer() == 0
    assert fake.packages  # packages of older compilers may still load


def test_a_plan_that_cannot_be_loaded_in_the_background_is_pytorchs(fake, images):
    fake.load_error = kiln.UnavailableError(kiln.ErrorCode.UNAVAILABLE, "broken")
    model = Network()
    kiln.torch.prepare(model, images)
    fake.answer()
    assert fake.states() == {State.ORIGINAL}
    assert all("broken" in reason for reason in fake.reasons())
    train(model, images)
    assert fake.launches == 0


def test_only_an_installed_kiln_prepares_and_only_models_on_its_devices(fake, images, monkeypatch):
    with pytest.raises(ValueError, match="'cpu'"):
        kiln.torch.prepare(Network().to("meta"), images)
    monkeypatch.setattr(kiln.torch, "_replaced", None)
    with pytest.raises(RuntimeError, match="install"):
        kiln.torch.prepare(Network(), images)


def test_the_example_trains_on_the_cpu():
    done = subprocess.run(
        [sys.executable, "-B", SOURCE / "docs/examples/train_resnet50.py", "--device", "cpu",
         "--type", "fp32", "--steps", "1", "--batch", "2", "--size", "32"], check=True,
        capture_output=True, text=True, timeout=IMPORT_MAX_S)
    assert done.stdout.startswith("PyTorch: first step") and " loss " in done.stdout
    assert "FutureWarning" not in done.stderr
