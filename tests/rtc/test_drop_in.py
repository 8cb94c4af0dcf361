# SPDX-License-Identifier: MIT
"""Tests tests/gpu/drop_in.py with a job that compiles with the fake NVRTC."""
import pathlib
import sys

import pytest

from conftest import BUILD, Daemon

GPU = pathlib.Path(__file__).resolve().parents[1] / "gpu"
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


def measure(daemon, tmp_path, monkeypatch, digest):
    """Returns the exit status of drop_in.py."""
    monkeypatch.syspath_prepend(str(GPU))
    import drop_in  # pylint: disable=import-outside-toplevel,import-error
    job = tmp_path / "job.py"
    job.write_text(JOB.replace("DIGEST", digest))
    for name, value in daemon.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KILN_RTC_PATIENCE", "60000")
    monkeypatch.setattr(sys, "argv", ["drop_in.py", "--bin", str(BUILD / "bin"), "--job", str(job),
                                      "cupy"])
    return drop_in.main()


def test_it_counts_compiles_and_answers(daemon, tmp_path, monkeypatch, capsys):
    assert measure(daemon, tmp_path, monkeypatch, "'same'") == 0
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
    assert measure(daemon, tmp_path, monkeypatch, "time.time()") == 1
    assert "results differ" in capsys.readouterr().err
