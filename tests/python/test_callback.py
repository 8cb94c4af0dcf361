# SPDX-License-Identifier: MIT
"""Tests exceptions in callbacks from libkiln, especially exceptions of signal handlers."""
import contextlib
import ctypes
import gc
import signal
import sys
import threading
import types

import pytest

import kiln
from conftest import TARGET, join, wait_until
from kiln._callback import Callback, _is_of
from test_kernel import UNKNOWN, freed  # noqa: F401  (a fixture)


@pytest.fixture
def interrupted(own_daemon):
    """Runs a batch, and raises a signal while libkiln waits for answers. The signal's handler then
    runs when libkiln enters the callback."""
    own_daemon.start()
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)

    def run(batch, number=signal.SIGINT):
        with kiln.Client(own_daemon.socket) as client:
            client.ping()
            before = client.status().requests
            own_daemon.process.send_signal(signal.SIGSTOP)

            def interrupt():
                wait_until("the request", lambda: client.status().requests > before)
                signal.pthread_kill(threading.get_ident(), number)
                own_daemon.process.send_signal(signal.SIGCONT)

            thread = threading.Thread(target=interrupt)
            thread.start()
            try:
                return batch(client)
            finally:
                own_daemon.process.send_signal(signal.SIGCONT)
                join(thread)

    yield run
    signal.signal(signal.SIGINT, previous)


@contextlib.contextmanager
def hooked():
    """Collects the calls of sys.unraisablehook. Must not be a fixture, because pytest sets its own
    hook after the fixtures."""
    told = []
    before = sys.unraisablehook

    def hook(unraisable):
        told.append(unraisable.exc_type)

    sys.unraisablehook = hook
    try:
        yield told
        assert sys.unraisablehook is hook
    finally:
        sys.unraisablehook = before


def raise_on_entry(error, entered=1):
    """Raises an exception in this thread when it enters a callback for the |entered|th time. The
    exception comes before the callback's first instruction, as from a pending signal handler."""
    count = 0

    def profile(frame, event, _argument):
        nonlocal count
        if event == "call" and frame.f_code is Callback._enter.__code__:
            count += 1
            if count == entered:
                sys.setprofile(None)
                raise error

    sys.setprofile(profile)


BATCHES = {
    "fetch_batch": lambda client, problem: client.fetch_batch([UNKNOWN] * 12),
    "plan_batch": lambda client, problem: client.plan_batch([problem] * 3, TARGET),
    "prefetch": lambda client, problem: client.prefetch([problem], TARGET),
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_signal_interrupts_a_batch(interrupted, problem, name):
    with hooked() as told, pytest.raises(KeyboardInterrupt):
        interrupted(lambda client: BATCHES[name](client, problem))
    assert told == []


def test_an_exception_of_any_signal_handler_ends_the_batch(interrupted):
    def handler(number, frame):
        raise SystemExit(7)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(SystemExit):
            interrupted(lambda client: client.fetch_batch([UNKNOWN] * 3), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_handler_that_raises_nothing_does_not_interrupt_a_batch(interrupted):
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    try:
        results = interrupted(lambda client: client.fetch_batch([UNKNOWN] * 3), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [signal.SIGUSR1]
    assert [type(result) for result in results] == [kiln.NotFoundError] * 3


@pytest.mark.parametrize("entered", [1, 2, 3])
def test_no_item_is_reported_after_an_interrupt(client, entered):
    told = []
    raise_on_entry(KeyboardInterrupt(), entered)
    with pytest.raises(KeyboardInterrupt):
        client.fetch_batch([UNKNOWN] * 3, ready=lambda i, k: told.append(i))
    assert len(told) == entered - 1


def test_an_interrupt_takes_precedence_over_an_error_of_the_call():
    def call(callback, _context):
        callback(None)
        raise_on_entry(KeyboardInterrupt())
        callback(None)
        raise kiln.CancelledError(kiln.ErrorCode.CANCELLED, "stopped")

    def fail():
        raise kiln.NotFoundError(kiln.ErrorCode.NOT_FOUND, "mine")

    with pytest.raises(KeyboardInterrupt):
        Callback(fail).run(call, ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p))


def test_a_nested_batch_is_interrupted_alone(client):
    """If the outer batch's callback catches the exception of an inner batch, the outer batch must
    continue."""
    inner = []

    def ready(index, kernel):
        raise_on_entry(KeyboardInterrupt())
        try:
            client.fetch_batch([UNKNOWN])
        except KeyboardInterrupt:
            inner.append(index)

    with hooked() as told:
        results = client.fetch_batch([UNKNOWN] * 2, ready=ready)
    assert sorted(inner) == [0, 1] and told == []
    assert [type(result) for result in results] == [kiln.NotFoundError] * 2


def test_unrelated_exceptions_reach_the_previous_hook(client):
    class Failing:
        def __del__(self):
            raise KeyError("theirs")

    def ready(index, kernel):
        made = Failing()
        del made
        gc.collect()

    with hooked() as told:
        results = client.fetch_batch([UNKNOWN], ready=ready)
    assert told == [KeyError] and isinstance(results[0], kiln.NotFoundError)


def test_a_hook_set_by_the_callback_stays(client, monkeypatch):
    # monkeypatch restores the hook after the test
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)

    def theirs(_unraisable):
        pass

    client.fetch_batch([UNKNOWN], ready=lambda i, k: setattr(sys, "unraisablehook", theirs))
    assert sys.unraisablehook is theirs


@pytest.mark.parametrize("name", BATCHES)
def test_a_missing_batch_item_is_never_a_result(client, problem, name):
    """In threads other than the main thread, no signal handler runs and kiln does not set the hook.
    An exception that is lost in such a thread must be reported."""
    outcomes = []

    def ask():
        raise_on_entry(MemoryError())
        try:
            outcomes.append(BATCHES[name](client, problem))
        except BaseException as error:
            outcomes.append(error)

    thread = threading.Thread(target=ask)
    with hooked() as told:
        thread.start()
        join(thread)
    assert [type(outcome) for outcome in outcomes] == [RuntimeError]
    assert "lost" in str(outcomes[0]) and told == [MemoryError]


def test_a_signal_interrupts_a_listing_of_devices():
    raise_on_entry(KeyboardInterrupt())
    with hooked() as told, pytest.raises(KeyboardInterrupt):
        kiln.devices()
    assert told == []


def test_a_callback_exception_is_recognized_by_its_message():
    """Imitates Python 3.13 and later."""
    mine, other = Callback(print)._enter, Callback(print)._enter
    told = types.SimpleNamespace(
        object=None, err_msg=f"Exception ignored on calling ctypes callback function {mine!r}")
    assert _is_of(told, mine) and not _is_of(told, other)
    assert not _is_of(types.SimpleNamespace(object=None, err_msg=None), mine)


def test_an_interrupt_right_after_a_call_loses_no_kernel(client, compiler, source,
                                                         freed, monkeypatch):  # noqa: F811
    original = kiln.client.call

    def interrupt(*arguments):
        original(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(kiln.client, "call", interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.fetch_source(source("interrupted"))
    gc.collect()
    assert len(freed) == 1
