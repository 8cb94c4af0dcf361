# SPDX-License-Identifier: MIT
"""Tests tests/gpu/drop_in.py with a job that compiles with the fake NVRTC."""
import pathlib
import subprocess
import sys

import pytest

from conftest import BUILD, WAIT_MAX_S, Daemon

GPU = pathlib.Path(__file__).resolve().parents[1] / "gpu"
PTXAS = BUILD / "tests/rtc/compilers/ptxas"
FAKE = BUILD / "tests/rtc/libnvrtc.so.99"
JOB = f"""
import argparse, ctypes, json, pathlib, sys, time
library = ctypes.CDLL({str(FAKE)!r})
parser = argparse.ArgumentParser()
parser.add_argument("--ready", type=pathlib.Path)
parser.add_argument("--start", type=pathlib.Path)
parser.add_argument("program")
options = parser.parse_args()
if options.ready:
    options.ready.touch()
    while not options.start.exists():
        time.sleep(0.001)
for i in range(3):
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), b"void k%d();" % i, None, 0, None, None)
    library.nvrtcCompileProgram(program, 0, None)
print(json.dumps({{"version": "a job", "seconds": 0.0, "cpu_seconds": 0.0, "start_seconds": 0.0,
                  "digests": {{"k": DIGEST}}, "failed": {{}}}}))
"""


@pytest.fixture(scope="module")
def daemon():
    d = Daemon()
    try:
        d.start()
        yield d
    finally:
        d.remove()


TRITON_JOB = f"""
import hashlib, json, os, subprocess
ptxas = os.environ.get("TRITON_PTXAS_PATH", {str(PTXAS)!r})
os.environ["KILN_PTXAS"] = {str(PTXAS)!r}
os.makedirs(os.environ["TRITON_CACHE_DIR"])
os.chdir(os.environ["TRITON_CACHE_DIR"])
with open("k.ptx", "w") as file:
    file.write("code")
os.environ["FAKE_CC_LOG"] = os.environ["TRITON_CACHE_DIR"] + "/runs"
subprocess.run([ptxas, "-arch=sm_90", "k.ptx", "-o", "k.o"], check=True, timeout={WAIT_MAX_S})
with open("k.o", "rb") as file:
    digest = hashlib.sha256(file.read()).hexdigest()
print(json.dumps({{"version": "a job", "seconds": 0.0, "cpu_seconds": 0.0, "start_seconds": 0.0,
                  "ptxas_runs": 1, "ptxas_seconds": 0.0, "digests": {{"k": digest}},
                  "failed": {{}}}}))
"""


def measure(daemon, tmp_path, monkeypatch, text, program="cupy"):
    """Returns the exit status of drop_in.py."""
    monkeypatch.syspath_prepend(str(GPU))
    import drop_in  # pylint: disable=import-outside-toplevel,import-error
    job = tmp_path / "job.py"
    job.write_text(text)
    for name, value in daemon.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KILN_RTC_PATIENCE", "60000")
    monkeypatch.setattr(sys, "argv", ["drop_in.py", "--bin", str(BUILD / "bin"), "--job", str(job),
                                      program])
    return drop_in.main()


def test_it_counts_compiles_and_answers(daemon, tmp_path, monkeypatch, capsys):
    assert measure(daemon, tmp_path, monkeypatch, JOB.replace("DIGEST", "'same'")) == 0
    counts = {line.split(",")[1].split(":")[0].strip(): line.rpartition("; ")[2]
              for line in capsys.readouterr().out.splitlines()}
    assert counts == {
        "plain": "0 answered, 0 stored, 0 compiled without kilnd, 0 by kilnd",
        "filled": "0 answered, 0 stored, 0 compiled without kilnd, 0 by kilnd",
        "cold": "0 answered, 3 stored, 0 compiled without kilnd, 0 by kilnd",
        "warm": "3 answered, 0 stored, 0 compiled without kilnd, 0 by kilnd",
        "plain-eight": "0 answered, 0 stored, 0 compiled without kilnd, 0 by kilnd",
        "eight": "21 answered, 3 stored, 0 compiled without kilnd, 0 by kilnd"}


def test_it_fails_if_results_differ(daemon, tmp_path, monkeypatch, capsys):
    assert measure(daemon, tmp_path, monkeypatch, JOB.replace("DIGEST", "time.time()")) == 1
    assert "results differ" in capsys.readouterr().err


def test_it_measures_triton_with_kiln_ptxas(daemon, tmp_path, monkeypatch, capsys):
    assert measure(daemon, tmp_path, monkeypatch, TRITON_JOB, "triton") == 0
    counts = [line.rpartition("1 times ptxas, 0.00 s; ")[2]
              for line in capsys.readouterr().out.splitlines()]
    assert counts == ["0 answered, 0 stored, 0 compiled without kilnd, 0 by kilnd",
                      "0 answered, 1 stored, 0 compiled without kilnd, 0 by kilnd",
                      "1 answered, 0 stored, 0 compiled without kilnd, 0 by kilnd"]


def test_without_triton_the_job_says_that_it_did_not_run():
    done = subprocess.run([sys.executable, "-S", str(GPU / "triton_job.py"), "triton"], text=True,
                          capture_output=True, timeout=WAIT_MAX_S, check=False)
    assert (done.returncode, done.stderr[:8]) == (77, "skipped:")
