# SPDX-License-Identifier: MIT
"""Tests the life of a client: open, request, close; threads and forks."""
import copy
import gc
import os
import pickle
import select
import signal
import socket
import threading
import weakref

import pytest

import kiln
from conftest import WAIT_MAX_S, join, wait_until
from kiln._call import Handle, to_milliseconds
from kiln._library import library

THREADS = 8


@pytest.fixture
def closed(monkeypatch):
    """Collects the pointers of released clients, in order."""
    gc.collect()
    given = []
    original = Handle.__del__

    def counting(handle):
        if handle.pointer and handle._release is library().kiln_client_close:
            given.append(handle.pointer)
        original(handle)

    monkeypatch.setattr(Handle, "__del__", counting)
    yield given


@pytest.fixture
def silent(tmp_path):
    """A socket that accepts connections and never answers."""
    path = tmp_path / "silent.sock"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))
        s.listen()
        yield path


def test_ping_returns_its_duration(client):
    assert 0 < client.ping() < 60


def test_the_status_names_the_daemon(client, daemon):
    before = client.status()
    assert (before.level, before.daemon, before.daemon_pid) == (kiln.Level.NONE, "", 0)
    client.ping()
    after = client.status()
    assert after.level == kiln.Level.DAEMON and after.reason == ""
    assert after.socket_path == daemon.socket
    assert kiln.version() in after.daemon and after.daemon_pid == daemon.process.pid
    assert after.requests > before.requests


def test_admin_calls_send_and_return_json(client, daemon):
    assert client.admin("status")["pid"] == daemon.process.pid
    assert client.admin("kernel_list", {"target": "gfx90c"})["kernels"] == []
    with pytest.raises(kiln.InvalidError, match="no_such_request"):
        client.admin("no_such_request")


def test_without_a_daemon_a_client_opens_but_requests_fail(tmp_path):
    with kiln.Client(tmp_path / "none.sock") as client:
        with pytest.raises(kiln.UnavailableError, match="none.sock") as caught:
            client.ping()
        assert caught.value.code == kiln.ErrorCode.UNAVAILABLE and caught.value.retryable
        assert client.status().level == kiln.Level.NONE
        assert "none.sock" in client.status().reason


def test_a_daemon_that_returns_is_used_again(own_daemon):
    own_daemon.start()
    with kiln.Client(own_daemon.socket) as client:
        client.ping()
        own_daemon.stop()
        own_daemon.start()
        client.ping(timeout=60)
        assert client.status().reconnects == 1


def test_a_call_ends_with_its_timeout(silent):
    with kiln.Client(silent) as client:
        with pytest.raises(kiln.TimedOutError) as caught:
            client.ping(timeout=0.02)
        assert isinstance(caught.value, TimeoutError)


@pytest.mark.parametrize("seconds,ms", [(None, 0), (0.0001, 1), (0.0015, 2), (1, 1000),
                                        (2.5, 2500)])
def test_times_are_rounded_up_to_milliseconds(seconds, ms):
    """A short time-out must not become 0, which would mean the default."""
    assert to_milliseconds(seconds) == ms


def test_a_client_has_a_timeout_of_its_own(silent):
    with kiln.Client(silent, timeout=0.02) as client:
        with pytest.raises(kiln.TimedOutError):
            client.ping()


@pytest.mark.parametrize("wrong", [0, -1, -0.001, float("nan"), float("inf"), 2**31])
def test_a_timeout_is_a_positive_number_of_seconds(client, wrong):
    with pytest.raises(kiln.InvalidError, match="time-out"):
        client.ping(timeout=wrong)
    with pytest.raises(kiln.InvalidError, match="time-out"):
        kiln.Client(timeout=wrong)


def test_a_request_that_libkiln_refuses_raises():
    with pytest.raises(kiln.InvalidError):
        kiln.Client("/" + "x" * 200)  # too long for the path of a socket
    with pytest.raises(kiln.InvalidError, match="cache_entries"):
        kiln.Client(cache_entries=2**31)
    with pytest.raises(kiln.InvalidError, match="NUL"):
        kiln.Client("a\0b")


def test_kiln_socket_names_the_socket(daemon, monkeypatch):
    monkeypatch.setenv("KILN_SOCKET", daemon.socket)
    with kiln.Client(name="test") as client:
        client.ping()
        assert client.status().socket_path == daemon.socket


# ---- closing ----


def test_leaving_the_with_block_closes_the_client_once(daemon, closed):
    with kiln.Client(daemon.socket) as client:
        client.ping()
        assert closed == []
    assert len(closed) == 1
    client.close()
    del client
    gc.collect()
    assert len(closed) == 1


def test_a_forgotten_client_is_closed(daemon, closed):
    client = kiln.Client(daemon.socket)
    gone = weakref.ref(client)
    del client
    gc.collect()
    assert gone() is None and len(closed) == 1


def test_a_closed_client_raises(daemon, problem):
    client = kiln.Client(daemon.socket)
    client.close()
    for call in (client.ping, client.status, lambda: client.fetch("0" * 64),
                 lambda: client.fetch_batch([]), lambda: client.plan(problem, "gfx90a"),
                 lambda: client.plan_batch([problem], "gfx90a"),
                 lambda: client.find_get(problem, "gfx90a68")):
        with pytest.raises(kiln.InvalidError, match="closed"):
            call()


def test_a_failed_open_leaves_nothing_to_close(closed):
    with pytest.raises(kiln.InvalidError):
        kiln.Client("/" + "x" * 200)
    gc.collect()
    assert closed == []


def test_close_waits_for_running_calls(own_daemon, closed):
    own_daemon.start()
    client = kiln.Client(own_daemon.socket)
    client.ping()
    before = client.status().requests
    own_daemon.process.send_signal(signal.SIGSTOP)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(client.ping()))
    thread.start()
    wait_until("the request", lambda: client.status().requests > before)
    client.close()
    assert closed == [] and answers == []
    own_daemon.process.send_signal(signal.SIGCONT)
    join(thread)
    assert len(answers) == 1 and len(closed) == 1


def test_a_kept_exception_does_not_keep_its_client_open(silent, closed):
    client = kiln.Client(silent)
    with pytest.raises(kiln.TimedOutError) as caught:
        client.ping(timeout=0.02)
    client.close()
    assert len(closed) == 1 and caught.value.__traceback__


def test_clients_and_handles_are_not_copied(client):
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="client"):
            attempt(client)


# ---- threads and forks ----


def test_threads_share_a_client(client):
    results = []

    def ask():
        for _ in range(50):
            results.append(client.ping() > 0)

    threads = [threading.Thread(target=ask) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    join(*threads)
    assert results == [True] * 50 * THREADS


def test_other_python_threads_run_during_a_call(own_daemon):
    """The call ends only when another Python thread has run and caused the answer."""
    own_daemon.start()
    with kiln.Client(own_daemon.socket) as client:
        client.ping()
        before = client.status().requests
        own_daemon.process.send_signal(signal.SIGSTOP)

        def cause_answer():
            try:
                wait_until("the request", lambda: client.status().requests > before)
            finally:
                own_daemon.process.send_signal(signal.SIGCONT)

        thread = threading.Thread(target=cause_answer)
        thread.start()
        client.ping()
        join(thread)


def in_child(work):
    """Returns as text what |work| returns in a forked child."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        if not select.select([pipe], [], [], WAIT_MAX_S)[0]:
            os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"waited {WAIT_MAX_S} s for the forked child")
        text = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0
    return text


def test_a_forked_child_cannot_use_its_parents_client(client):
    client.ping()
    assert in_child(lambda: str(client.ping())).startswith("InvalidError: ")
    client.ping()


def test_a_forked_child_can_close_its_parents_client_and_open_another(daemon, client):
    client.ping()

    def work():
        client.close()
        with kiln.Client(daemon.socket) as own:
            own.ping()
        return "ok"

    assert in_child(work) == "ok"
    client.ping()
    assert client.status().reconnects == 0
