# SPDX-License-Identifier: MIT
"""Tests the parts of kiln.torch that need no PyTorch."""
import ctypes
import dataclasses
import json
import multiprocessing
import os
import threading

import pytest

import kiln
import kiln.torch
from conftest import WAIT_MAX_S, wait_until
from kiln import DataType, Direction, Layout, _abi, _library, _run
from kiln.torch import _planner, _records, _translate
from kiln.torch._translate import Geometry, Tensors, Untranslatable

FIRST = Layout.CHANNELS_FIRST


def geometry(stride=(1, 1), padding=(0, 0), dilation=(1, 1), transposed=False, groups=1):
    return Geometry(stride, padding, dilation, transposed, groups)


def problem(tensors, shape, direction=Direction.FORWARD, kind="torch.float16", layout=FIRST,
            tf32=False):
    return _translate.problem_of(direction, tensors, shape, kind, layout, tf32)


def test_a_convolution_becomes_a_problem():
    made = problem(Tensors(x=(8, 64, 56, 56), w=(32, 32, 3, 3), y=(8, 32, 28, 28)),
                   geometry(stride=(2, 2), padding=(1, 1), groups=2), Direction.BACKWARD_WEIGHTS,
                   layout=Layout.CHANNELS_LAST)
    assert made == kiln.Problem(
        n=8, c=64, k=32, input=(56, 56), filter=3, pad=1, stride=2, groups=2,
        direction=Direction.BACKWARD_WEIGHTS, type=DataType.FLOAT16,
        x_layout=Layout.CHANNELS_LAST, w_layout=Layout.CHANNELS_LAST,
        y_layout=Layout.CHANNELS_LAST)


def test_one_dimension_becomes_two_and_one_number_counts_for_all():
    made = problem(Tensors(x=(2, 4, 100), w=(8, 4, 5), y=(2, 8, 48)),
                   geometry(stride=(2,), padding=(0,), dilation=(1,)))
    assert (made.input, made.filter, made.stride, made.output) == ((1, 100), (1, 5), (1, 2),
                                                                   (1, 48))
    made = problem(Tensors(x=(2, 4, 8, 8, 8), w=(8, 4, 3, 3, 3), y=(2, 8, 8, 8, 8)),
                   geometry(stride=(1,), padding=(1,), dilation=(1,)))
    assert made.pad == (1, 1, 1)


def test_tf32_is_allowed_for_fp32_only():
    tensors = Tensors(x=(1, 4, 8, 8), w=(8, 4, 1, 1), y=(1, 8, 8, 8))
    assert problem(tensors, geometry(), kind="torch.float32", tf32=True).allow_tf32
    assert not problem(tensors, geometry(), kind="torch.float32").allow_tf32
    assert not problem(tensors, geometry(), kind="torch.bfloat16", tf32=True).allow_tf32


def test_groups_of_few_channels_do_not_use_tf32():
    def allowed(channels, groups):
        tensors = Tensors(x=(1, channels, 8, 8), w=(12, channels // groups, 1, 1), y=(1, 12, 8, 8))
        return problem(tensors, geometry(groups=groups), kind="torch.float32", tf32=True).allow_tf32
    assert allowed(8, 2)
    assert not allowed(6, 2)
    assert allowed(3, 1)


@pytest.mark.parametrize("tensors,shape,kind,why", [
    (Tensors((1, 4, 8, 8), (8, 4, 1, 1), (1, 8, 8, 8)), geometry(), "torch.float64", "float64"),
    (Tensors((0, 4, 8, 8), (8, 4, 1, 1), (0, 8, 8, 8)), geometry(), "torch.float32", "empty"),
    (Tensors((4, 8), (8, 4), (4, 8)), geometry(), "torch.float32", "2 and 2 dimensions"),
    (Tensors((1, 4, 8, 8), (8, 2, 1, 1), (1, 8, 8, 8)), geometry(), "torch.float32", "match"),
    (Tensors((1, 4, 8, 8), (8, 4, 1, 1), (1, 8, 5, 4)), geometry(stride=(2, 2)), "torch.float32",
     "output padding"),
])
def test_what_kiln_has_no_problem_for_says_why(tensors, shape, kind, why):
    with pytest.raises(Untranslatable, match=why):
        problem(tensors, shape, kind=kind)


def test_a_negative_padding_is_refused_by_kiln():
    with pytest.raises(kiln.InvalidError, match="pad"):
        problem(Tensors((1, 4, 8, 8), (8, 4, 1, 1), (1, 8, 6, 6)), geometry(padding=(-1, -1)))


@pytest.mark.parametrize("result,transposed,direction", [
    ("output", False, Direction.FORWARD), ("output", True, Direction.BACKWARD_DATA),
    ("input", False, Direction.BACKWARD_DATA), ("input", True, Direction.FORWARD),
    ("weight", False, Direction.BACKWARD_WEIGHTS), ("weight", True, Direction.BACKWARD_WEIGHTS)])
def test_a_transposed_convolution_exchanges_the_directions(result, transposed, direction):
    assert _translate.direction_of(result, transposed) is direction


class FakeDevice:
    target, database_id, driver = "gfx90a", "gfx90a68", ""
    refuses_packages = False


class FakeClient:
    """Answers each problem with its n, except 0, for which it fails."""

    def __init__(self):
        self.batches = []
        self.may_answer = threading.Event()

    def _plan_handles(self, problems, options, ready):
        assert self.may_answer.wait(WAIT_MAX_S), "the test has not allowed an answer"
        self.batches.append(len(problems))
        for i, n in enumerate(problems):
            if n == 0:
                raise kiln.UnavailableError(kiln.ErrorCode.UNAVAILABLE, "no kilnd")
            ready(i, n)


def test_plans_are_requested_on_another_thread_and_gathered():
    client, answers = FakeClient(), []
    planner, device = _planner.Planner(lambda: client), FakeDevice()
    for n in (1, 2, 3):
        planner.ask([(device, n, answers.append)])
    assert not planner.wait(0) and answers == []
    client.may_answer.set()
    assert planner.wait(WAIT_MAX_S)
    assert sorted(answers) == [1, 2, 3] and sum(client.batches) == 3


def test_plans_for_a_device_that_refuses_packages_use_none():
    class Client:
        def _plan_handles(self, problems, options, ready):
            ready(0, options.no_packages)

    answers, device = [], FakeDevice()
    planner = _planner.Planner(Client)
    planner.ask([(device, 1, answers.append)])
    assert planner.wait(WAIT_MAX_S)
    planner.ask([(device, 1, answers.append)], packages=False)
    assert planner.wait(WAIT_MAX_S)
    device.refuses_packages = True
    planner.ask([(device, 1, answers.append)])
    assert planner.wait(WAIT_MAX_S)
    assert answers == [0, 1, 1]


def test_a_batch_that_takes_long_delays_no_later_request():
    clients = {1: FakeClient(), 2: FakeClient()}

    class Client:
        def _plan_handles(self, problems, options, ready):
            clients[problems[0]]._plan_handles(problems, options, ready)

    later = threading.Event()
    planner, device = _planner.Planner(Client), FakeDevice()
    planner.ask([(device, 1, print)])
    wait_until("the first request to be taken", lambda: not planner._requests)
    clients[2].may_answer.set()
    planner.ask([(device, 2, lambda plan: later.set())])
    assert later.wait(WAIT_MAX_S) and not planner.wait(0)
    clients[1].may_answer.set()
    assert planner.wait(WAIT_MAX_S)


def test_there_are_few_threads_however_many_batches_wait():
    client, answers = FakeClient(), []
    planner, device = _planner.Planner(lambda: client), FakeDevice()
    for n in range(1, 41):
        planner.ask([(device, n, answers.append)])
    assert planner._threads <= _planner.THREADS_MAX
    client.may_answer.set()
    assert planner.wait(WAIT_MAX_S)
    assert sorted(answers) == list(range(1, 41))


def test_a_forked_child_does_not_wait_for_its_parents_plans():
    clients = [FakeClient()]
    planner, device = _planner.Planner(lambda: clients[-1]), FakeDevice()
    planner.ask([(device, 1, print)])

    def work():
        assert planner.wait(0)
        clients.append(FakeClient())
        clients[-1].may_answer.set()
        answers = []
        planner.ask([(device, 2, answers.append)])
        assert planner.wait(WAIT_MAX_S) and answers == [2]

    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(WAIT_MAX_S)
    code = child.exitcode
    child.kill()
    clients[0].may_answer.set()
    assert planner.wait(WAIT_MAX_S) and code == 0


def test_plans_that_are_requested_together_are_one_batch():
    client, answers = FakeClient(), []
    client.may_answer.set()
    planner, device = _planner.Planner(lambda: client), FakeDevice()
    planner.ask([(device, n, answers.append) for n in (1, 2, 3)])
    assert planner.wait(WAIT_MAX_S)
    assert answers == [1, 2, 3] and client.batches == [3]


def test_a_failed_request_answers_everybody_and_the_next_one_works():
    client, answers = FakeClient(), []
    client.may_answer.set()
    planner, device = _planner.Planner(lambda: client), FakeDevice()
    planner.ask([(device, 0, answers.append)])
    assert planner.wait(WAIT_MAX_S)
    assert isinstance(answers[0], kiln.UnavailableError)
    planner.ask([(device, 5, answers.append)])
    assert planner.wait(WAIT_MAX_S)
    assert answers[1:] == [5]


def test_a_client_that_cannot_be_opened_is_an_answer():
    def fail():
        raise kiln.InvalidError(kiln.ErrorCode.INVALID, "no such socket")

    answers = []
    planner = _planner.Planner(fail)
    planner.ask([(FakeDevice(), 1, answers.append)])
    assert planner.wait(WAIT_MAX_S)
    assert answers[0].text == "no such socket"


def test_plans_of_kilnd_keep_their_handles(client, compiler, problem):
    from kiln import plan as plans

    options = plans.to_options("gfx1030", database_id=None, toolchain=None, driver=None,
                               timeout=WAIT_MAX_S)
    found = []
    client._plan_handles([problem], options, lambda index, plan: found.append(plan))
    assert plans.from_pointer(found[0].pointer).objects


def test_packed_tensors_are_the_struct_of_libkiln():
    size = ctypes.sizeof(_abi.NativeTensors)
    values = (size, 1 << 63, 2, 3, 4, 1 << 40, 6)
    assert _run.pack_tensors(*values) == bytes(_abi.NativeTensors(*values))


def test_a_launch_that_fails_raises_libkilns_error():
    run = _run.Run.__new__(_run.Run)
    run.workspace, run.pointer = 0, 0
    run._launch = _run._Launch(("kiln_run_launch_native", _library.library()))
    with pytest.raises(kiln.InvalidError, match="needs a run"):
        run.launch(16, 32, 48, 0, 0)


RECORD = _records.Record(kiln=True, reason="", solver="S", config="1,2", code="12ab",
                         kiln_us=1.5, original_us=2.5, shape=(1, 2, 3, 4), strides=(24, 1, 8, 2),
                         last=True)


def test_the_last_record_of_a_key_counts(tmp_path):
    path = str(tmp_path / "there" / "records")
    assert _records.Records(path).get("a") is None
    for kiln_us in (3.0, 1.5):
        _records.Records(path).put("a", dataclasses.replace(RECORD, kiln_us=kiln_us))
    known = _records.Records(path)
    assert known.get("a") == RECORD and known.get("b") is None


def line_of(**fields):
    return json.dumps({"key": "a", **dataclasses.asdict(RECORD), **fields}) + "\n"


WRONG_TYPES = [line_of(kiln=1), line_of(kiln_us=None), line_of(reason=3), line_of(shape=["x"]),
               line_of(strides=[1]), line_of(shape=[1, -2, 3, 4])]


@pytest.mark.parametrize("damage", ["\n", "{\n", "[]\n", '{"key": "a"}\n', "\xff\n", "{}\n",
                                    '{"key": "a", "shape": 3}\n', "[" * 100000 + "\n",
                                    *WRONG_TYPES])
def test_damaged_records_are_skipped(tmp_path, damage):
    path = str(tmp_path / "records")
    _records.Records(path).put("a", RECORD)
    with open(path, "a", encoding="latin-1") as file:
        file.write(damage)
    _records.Records(path).put("b", RECORD)
    known = _records.Records(path)
    assert known.get("a") == known.get("b") == RECORD


def test_a_large_file_of_records_is_begun_anew(tmp_path, monkeypatch):
    path = str(tmp_path / "records")
    monkeypatch.setattr(_records, "SIZE_MAX", 100)
    for key in "ab":
        _records.Records(path).put(key, RECORD)
    known = _records.Records(path)
    assert known.get("a") is None and known.get("b") == RECORD


def test_only_the_beginning_of_a_too_large_file_is_read(tmp_path, monkeypatch):
    path = str(tmp_path / "records")
    for key in "ab":
        _records.Records(path).put(key, RECORD)
    monkeypatch.setattr(_records, "READ_MAX", os.path.getsize(path) // 2 + 9)
    known = _records.Records(path)
    assert known.get("a") == RECORD and known.get("b") is None


def replace_by_link(path):
    os.rename(path, f"{path}.other")
    os.symlink(f"{path}.other", path)


def replace_by_fifo(path):
    os.remove(path)
    os.mkfifo(path)


@pytest.mark.parametrize("change", [
    replace_by_link, replace_by_fifo, lambda path: os.chmod(path, 0o620),
    lambda path: os.chmod(os.path.dirname(path), 0o777)], ids=["link", "fifo", "file", "directory"])
def test_a_file_that_others_could_have_written_is_not_used(tmp_path, change):
    path = str(tmp_path / "torch" / "records")
    _records.Records(path).put("a", RECORD)
    change(path)
    assert _records.Records(path).get("a") is None
    with pytest.raises(OSError):
        _records.Records(path).put("b", RECORD)


def test_a_file_of_another_user_is_not_used(tmp_path, monkeypatch):
    path = str(tmp_path / "records")
    _records.Records(path).put("a", RECORD)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert _records.Records(path).get("a") is None
    with pytest.raises(OSError):
        _records.Records(path).put("b", RECORD)


def test_no_group_may_write_to_the_directories(tmp_path):
    before = os.umask(0o002)
    try:
        _records.Records(str(tmp_path / "cache" / "kiln" / "torch" / "records")).put("a", RECORD)
    finally:
        os.umask(before)
    made = tmp_path / "cache" / "kiln"
    assert {path.stat().st_mode & 0o077 for path in (made, *made.rglob("*"))} == {0}


def test_a_user_without_a_home_directory_has_no_records(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    records = _records.Records(_records.directory() + "/records")
    records.put("a", RECORD)
    assert records.get("a") is None and not list(tmp_path.iterdir())


def test_before_install_there_is_nothing_to_report():
    assert kiln.torch.convolutions() == []
    assert kiln.torch.wait(0)
    assert kiln.torch.report() == "kiln.torch is not installed: PyTorch runs all convolutions"
