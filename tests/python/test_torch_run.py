# SPDX-License-Identifier: MIT
"""Tests `kilnctl run --torch`: unchanged programs, with a fake torch and with PyTorch."""
import json
import os
import subprocess
import sys

import pytest

from conftest import BUILD, SOURCE

WAIT_S = 600  # on a loaded machine, importing PyTorch takes a minute
PACKAGE = SOURCE / "libclient/python/kiln"
FAKE_TORCH = (SOURCE / "tests/packages/fake_torch/torch.py").read_text()
FOR_CPU = FAKE_TORCH.replace("_cuda_getCurrentRawStream", "_other")
NO_GPU = "PyTorch 2.9 was built without CUDA and ROCm, and kiln runs convolutions only on GPUs"
BOTH = "['convolution', 'convolution_backward']\n"


class Program:
    """Runs Python programs in a directory whose subdirectory "modules" is PYTHONPATH."""

    def __init__(self, directory):
        self.directory, self.modules = directory, directory / "modules"
        self.modules.mkdir()
        self.environment = dict(os.environ, PYTHONPATH=str(self.modules), PYTHONNOUSERSITE="1",
                                PYTHONDONTWRITEBYTECODE="1", KILN_PYTHON_PACKAGE=str(PACKAGE))

    def add(self, **modules):
        for name, text in modules.items():
            (self.modules / f"{name}.py").write_text(text)

    def start(self, *command, **environment):
        return subprocess.run(command, env={**self.environment, **environment}, text=True,
                              capture_output=True, timeout=WAIT_S, cwd=self.directory)

    def plain(self, code):
        return self.start(sys.executable, "-c", code)

    def run(self, code, *options, python=sys.executable, **environment):
        file = self.directory / "program.py"
        file.write_text(code)
        return self.start(BUILD / "bin/kilnctl", "run", "--torch", *options, "--", python, file,
                          **environment)


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path)


def test_an_unchanged_program_gets_kiln_torch(program):
    program.add(torch=FAKE_TORCH)
    done = program.run("import torch; print(torch.replaced)")
    assert (done.stdout, done.stderr, done.returncode) == (BOTH, "", 0)


def test_a_program_that_installs_it_too_changes_nothing(program):
    program.add(torch=FAKE_TORCH)
    done = program.run("import torch, kiln.torch; kiln.torch.install(); print(torch.replaced)")
    assert (done.stdout, done.stderr) == (BOTH, "")


@pytest.mark.parametrize("start", [
    "import subprocess, sys; "
    "subprocess.run([sys.executable, '-c', CHILD], check=True, timeout=60)",
    "import multiprocessing\n"
    "def child(): import torch; print(torch.replaced, flush=True)\n"
    "if __name__ == '__main__':\n"
    "    process = multiprocessing.get_context('spawn').Process(target=child)\n"
    "    process.start(); process.join(60)"], ids=["subprocess", "spawn"])
def test_children_get_it_too(program, start):
    program.add(torch=FAKE_TORCH)
    done = program.run("CHILD = 'import torch; print(torch.replaced)'\n" + start)
    assert (done.stdout, done.stderr) == (BOTH, "")


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_an_isolated_python_runs_without_kiln(program, option):
    program.add(torch=FAKE_TORCH)
    file = program.directory / "program.py"
    file.write_text(f"import sys; sys.path.insert(0, {str(program.modules)!r})\n"
                    "import torch; print(torch.replaced)")
    done = program.start(BUILD / "bin/kilnctl", "run", "--torch", "--", sys.executable, option,
                         file)
    assert (done.stdout, done.stderr, done.returncode) == ("[]\n", "", 0)


def test_to_look_for_torch_installs_nothing(program):
    program.add(torch=FAKE_TORCH)
    done = program.run("import importlib.util, sys\n"
                       "spec = importlib.util.find_spec('torch')\n"
                       "print('torch' in sys.modules, 'kiln' in sys.modules)\n"
                       "import torch; print(torch.replaced, type(torch.__loader__).__name__)")
    assert done.stdout == f"False False\n{BOTH[:-1]} SourceFileLoader\n"


def test_a_program_without_torch_sees_no_difference(program):
    code = ("import sys; print(sys.path[1:], 'kiln' in sys.modules); sys.path.clear()\n"
            "try: import torch\nexcept ImportError as error: print(error, error.name)")
    program.add(sitecustomize="")
    plain, done = program.plain(code), program.run(code)
    assert (done.stdout, done.stderr, done.returncode) == (plain.stdout, "", 0)


def test_the_sitecustomize_of_the_host_runs_too(program):
    program.add(sitecustomize="print('from', __name__, __file__)", torch=FAKE_TORCH)
    done = program.run("import sys, torch; print(sys.modules['sitecustomize'].__file__)\n"
                       "print(torch.replaced)")
    file = program.modules / "sitecustomize.py"
    assert done.stdout == f"from sitecustomize {file}\n{file}\n{BOTH}"
    program.add(sitecustomize="import nothing_of_this_name")
    plain, done = program.plain(""), program.run("")
    assert "nothing_of_this_name" in plain.stderr and done.returncode == plain.returncode == 0
    assert "nothing_of_this_name" in done.stderr


def test_a_directory_of_the_name_torch_is_left_alone(program):
    (program.modules / "torch").mkdir()
    done = program.run(f"import sys; sys.path[:] = [{str(program.modules)!r}]\n"
                       "import torch; print(torch.__file__, 'kiln' in sys.modules)")
    assert (done.stdout, done.stderr) == ("None False\n", "")


def test_a_torch_that_fails_fails_as_it_does_without(program):
    program.add(torch="raise RuntimeError('broken')")
    code = "try: import torch\nexcept RuntimeError as error: print(error)"
    assert program.run(code).stdout == program.plain(code).stdout == "broken\n"


def test_a_kiln_of_the_programs_own_stays_the_programs(program):
    program.add(torch=FAKE_TORCH, kiln="name = 'pottery'")
    done = program.run("import torch, kiln; print(kiln.name, torch.replaced)")
    assert (done.stdout, done.returncode) == ("pottery []\n", 0)
    assert "kiln.torch is not installed: No module named 'kiln.torch'" in done.stderr


def test_a_pytorch_for_the_cpu_runs_without_kiln_and_says_so_once(program):
    program.add(torch=FOR_CPU)
    done = program.run("import torch; print('works')")
    assert (done.stdout, done.returncode) == ("works\n", 0)
    assert done.stderr == f"kiln.torch is not installed: {NO_GPU}\n"


def test_without_libkiln_the_program_runs(program):
    program.add(torch=FAKE_TORCH)
    done = program.run("import torch; print('works')", KILN_LIBRARY_PATH="/nonexistent")
    assert (done.stdout, done.returncode) == ("works\n", 0)
    assert "kiln.torch is not installed: cannot load '/nonexistent'" in done.stderr


# Two known convolutions: PyTorch has run the first one 2 times and kiln 5 times, and PyTorch has
# run the second one 7 times.
CALLS = """
import os, sys, torch, kiln.torch
of = kiln.torch.Convolution
known = [of("output", "", "", "kiln", "", "", 1.0, 2.0, 5, 2),
         of("output", "", "", "PyTorch", "slower", "", 2.0, 1.0, 0, 7)]
kiln.torch.convolutions = lambda: known
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
"""


def test_the_report_says_what_ran_where(program):
    program.add(torch=FAKE_TORCH)
    done = program.run(CALLS, "--explain")
    assert "14 calls of PyTorch's convolutions: 5 by kiln, 9 by PyTorch" in done.stderr
    assert "kilnctl: 2 by PyTorch: called before kiln was chosen\n" in done.stderr
    assert "kilnctl: 7 by PyTorch: slower\n" in done.stderr


def test_the_report_in_json(program):
    program.add(torch=FAKE_TORCH)
    done = program.run(CALLS, "--explain", "--json")
    assert json.loads(done.stderr.splitlines()[-1])["torch"] == {
        "by_kiln": 5, "by_pytorch": 9, "failures": [], "reasons": [
            {"reason": "called before kiln was chosen", "count": 2},
            {"reason": "slower", "count": 7}]}


def test_the_report_says_why_kiln_torch_is_not_installed(program):
    program.add(torch=FOR_CPU)
    done = program.run("import torch", "--explain")
    assert "no process reported convolutions of PyTorch on a GPU" in done.stderr
    assert f"kilnctl: 1 processes without kiln.torch: {NO_GPU}\n" in done.stderr


def test_the_report_of_a_program_without_torch(program):
    done = program.run("", "--explain")
    assert "no process reported convolutions of PyTorch on a GPU" in done.stderr
    done = program.start(BUILD / "bin/kilnctl", "run", "--explain", "--", sys.executable, "-c", "")
    assert "PyTorch" not in done.stderr


@pytest.mark.parametrize("package", ["/nonexistent", "relative"])
def test_a_package_that_is_not_there_is_an_error(program, package):
    done = program.run("print('ran')", KILN_PYTHON_PACKAGE=package)
    assert done.stdout == "" and done.returncode != 0
    assert "KILN_PYTHON_PACKAGE" in done.stderr and package in done.stderr


def test_without_a_package_kilnctl_says_what_to_install(program):
    done = program.run("print('ran')", KILN_PYTHON_PACKAGE="")
    assert done.stdout == "" and "install python3-kiln" in done.stderr


def test_an_empty_pythonpath_stays_without_the_current_directory(program):
    done = program.run("import sys, os; print(os.getcwd() in sys.path[1:], '' in sys.path)",
                       PYTHONPATH="")
    assert done.stdout == "False False\n"


def test_a_program_of_pytorch_for_the_cpu_has_the_same_results(program):
    pytest.importorskip("torch", reason="no PyTorch for this Python")
    code = ("import torch; torch.manual_seed(1)\n"
            "print(torch.nn.Conv2d(3, 4, 3)(torch.randn(1, 3, 8, 8)).sum().item())")
    plain, done = program.plain(code), program.run(code)
    assert (done.stdout, done.returncode) == (plain.stdout, 0) and plain.stdout
    assert "kiln.torch is not installed: PyTorch" in done.stderr
