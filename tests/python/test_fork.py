# SPDX-License-Identifier: MIT
"""Tests workers with multiprocessing's start method 'fork', like those of a DataLoader, with and
without kilnd.

Each case is a separate interpreter, like a job, so that the forking process has no threads of the
tests.
"""
import ast
import os
import subprocess
import sys

import pytest

from conftest import BUILD

WORKERS = 3
TASKS = 12

# |parent| was opened before the fork, so each worker process needs its own client. The first task
# of a worker process opens this client. Each task returns which kilnd served it.
COMMON = f"""
import multiprocessing, os, sys
import kiln

ID = "gfx90a68"
PROBLEMS = [kiln.Problem(n=1, c=4, k=4 + i, input=(8, 8), filter=1) for i in range({TASKS})]
own = None

def task(i):
    global own
    if own is None:
        try:
            parent.ping()
        except kiln.InvalidError:
            own = kiln.Client()
    recording = kiln.Recording(ID, [kiln.Measurement("ConvDirectNaive", median_ms=1.0 + i,
                               samples=1, algorithm="miopenConvolutionFwdAlgoDirect")])
    own.find_put(PROBLEMS[i], recording)
    status = own.status()
    return os.getpid(), status.level.name, status.daemon_pid

def workers():
    with multiprocessing.get_context("fork").Pool({WORKERS}) as pool:
        told = pool.map(task, range({TASKS}), chunksize=1)
    assert os.getpid() not in [pid for pid, _, _ in told]
    return {{(level, pid) for _, level, pid in told}}

def check_all_is_there(client):
    for i, problem in enumerate(PROBLEMS):
        entries = client.find_get(problem, ID).entries
        assert [(e.solver, e.time_ms) for e in entries] == [("ConvDirectNaive", 1.0 + i)], entries

parent = kiln.Client()
"""

USED = COMMON + """
parent.ping()
served = workers()
assert parent.status().reconnects == 0
check_all_is_there(parent)
print(served)
"""

# While workers are forked and run tasks, threads of the parent process call |parent|.
BUSY = COMMON + """
import threading, time

parent.ping()
served = workers()
ended, asked = threading.Event(), []

def ask():
    while not ended.is_set():
        parent.ping()
        parent.find_get(PROBLEMS[0], ID)
        asked.append(1)

threads = [threading.Thread(target=ask) for _ in range(2)]
for thread in threads:
    thread.start()
while not asked and threads[0].is_alive():
    time.sleep(0.001)
for _ in range(3):
    served |= workers()
ended.set()
for thread in threads:
    thread.join(60)
    assert not thread.is_alive(), "waited 60 s for a thread to end"
assert parent.status().reconnects == 0
check_all_is_there(parent)
print(served)
"""

# |parent| has sent no request before the fork, so a worker starts the private kilnd.
UNUSED = COMMON + """
served = workers()
check_all_is_there(parent)
print({level for level, _ in served})
"""


def run(code, tmp_path, socket, fallback):
    """Returns the output of |code|, which runs with private directories."""
    environment = dict(os.environ, KILN_LIBRARY_PATH=str(BUILD / "lib"), KILN_SOCKET=str(socket),
                       KILN_FALLBACK=fallback, KILN_FALLBACK_NOTICE="off",
                       KILN_FALLBACK_PATIENCE="600000", HOME=str(tmp_path),
                       XDG_CACHE_HOME=str(tmp_path / "cache"),
                       XDG_STATE_HOME=str(tmp_path / "state"),
                       XDG_CONFIG_HOME=str(tmp_path / "config"), XDG_RUNTIME_DIR=str(tmp_path),
                       KILND_IDLE_EXIT="1s")
    process = subprocess.Popen([sys.executable, "-B", "-c", code], env=environment, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said, complaints = process.communicate(timeout=240)
    assert (process.returncode, complaints) == (0, "")
    return process.pid, said.strip()


@pytest.mark.parametrize("code", [USED, BUSY, UNUSED], ids=["used", "busy", "unused"])
def test_with_kilnd_each_forked_worker_connects_to_it(daemon, tmp_path, code):
    _, said = run(code, tmp_path, daemon.socket, "off")
    assert said == str({"DAEMON"} if code is UNUSED else {("DAEMON", daemon.process.pid)})


@pytest.mark.parametrize("code", [USED, BUSY], ids=["used", "busy"])
def test_without_kilnd_a_private_one_serves_parent_and_workers(tmp_path, code):
    pid, said = run(code, tmp_path, tmp_path / "none.sock", "private")
    (level, server), = ast.literal_eval(said)
    assert level == "PRIVATE" and server != pid


def test_without_kilnd_workers_start_a_private_one_that_serves_the_parent(tmp_path):
    _, said = run(UNUSED, tmp_path, tmp_path / "none.sock", "private")
    assert said == str({"PRIVATE"})
