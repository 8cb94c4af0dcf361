# SPDX-License-Identifier: MIT
"""The fixtures: a kilnd for the tests, and sources to compile."""
import ctypes
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

import kiln

BUILD = pathlib.Path(os.environ["KILN_BUILD"])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
TARGET = "gfx1030"  # clang compiles for this target without a GPU
DATABASE_ID = "gfx90a68"
WAIT_MAX_S = 60  # long enough for sanitizers on a loaded machine
PR_SET_PDEATHSIG = 1


def wait_until(what, holds):
    """Calls |holds| until it returns true. Fails after a minute."""
    end = time.monotonic() + WAIT_MAX_S
    while not holds():
        assert time.monotonic() < end, f"waited {WAIT_MAX_S} s for {what}"
        time.sleep(0.001)


def join(*threads):
    """Waits for |threads| to end. Fails after a minute."""
    for thread in threads:
        thread.join(WAIT_MAX_S)
        assert not thread.is_alive(), f"waited {WAIT_MAX_S} s for the thread '{thread.name}' to end"


class Daemon:
    """A kilnd with private directories below a short path, because the path of a socket may have at
    most 107 bytes."""

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="kiln-test-", dir="/tmp"))
        self.socket = str(self.directory / "kilnd.sock")
        for name in ("home", "run", "pocl"):
            (self.directory / name).mkdir(mode=0o700)
        self.environment = dict(
            os.environ, HOME=str(self.directory / "home"),
            XDG_RUNTIME_DIR=str(self.directory / "run"),
            XDG_CACHE_HOME=str(self.directory / "cache-home"),
            XDG_STATE_HOME=str(self.directory / "state-home"),
            XDG_CONFIG_HOME=str(self.directory / "config-home"),
            POCL_CACHE_DIR=str(self.directory / "pocl"), KILN_SOCKET=self.socket)
        self.process = None

    def start(self):
        libc = ctypes.CDLL(None)
        with open(self.directory / "kilnd.log", "ab") as log:
            self.process = subprocess.Popen(
                [BUILD / "bin/kilnd", "--socket", self.socket, "--cache-dir",
                 self.directory / "cache",
                 "--state-dir", self.directory / "state"], env=self.environment, stdout=log,
                stderr=log, preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        wait_until(f"kilnd to listen at '{self.socket}'", self._answers)

    def _answers(self):
        assert self.process.poll() is None, (self.directory / "kilnd.log").read_text()
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(self.socket) == 0

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait(WAIT_MAX_S)
            self.process = None

    def remove(self):
        self.stop()
        shutil.rmtree(self.directory)

    def kilnctl(self, *arguments):
        return subprocess.run([BUILD / "bin/kilnctl", *arguments], env=self.environment,
                              check=True, capture_output=True, text=True,
                              timeout=WAIT_MAX_S).stdout


@pytest.fixture(scope="session")
def daemon():
    d = Daemon()
    try:
        d.start()
        yield d
    finally:
        d.remove()


@pytest.fixture
def own_daemon():
    """A kilnd that a test may stop. It is not started yet."""
    d = Daemon()
    try:
        yield d
    finally:
        d.remove()


@pytest.fixture
def client(daemon):
    with kiln.Client(daemon.socket) as c:
        yield c


@pytest.fixture(scope="session")
def compiler(daemon):
    """The name of a compiler for TARGET. Skips the test if this host has none."""
    with kiln.Client(daemon.socket) as c:
        for toolchain in c.admin("toolchains")["toolchains"]:
            if toolchain["family"] == "amdgpu":
                return toolchain["name"]
    pytest.skip("no compiler for AMD's targets here; scripts/install-deps test brings one")


@pytest.fixture(scope="session")
def source():
    """Returns a function that makes sources of distinct kernels."""
    def make(name="k", body="", **other):
        text = f'extern "C" __global__ void {name}(float *p) {{ p[0] = 1; {body} }}\n'
        return kiln.KernelSource(target=TARGET, program=f"{name}.cpp", source=text, **other)
    return make


@pytest.fixture(scope="session")
def problem():
    return kiln.Problem(n=2, c=4, k=8, input=(8, 8), filter=3, pad=1)
