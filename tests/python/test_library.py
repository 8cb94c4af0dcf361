# SPDX-License-Identifier: MIT
"""Tests where libkiln is found. Each case is a separate interpreter, because a process has only one
libkiln."""
import os
import shutil
import subprocess
import sys

import pytest

import kiln
from conftest import BUILD, SOURCE
from kiln import _abi
from test_abi import compiler


def run(code, **variables):
    removed = ("KILN_LIBRARY_PATH", "KILN_FALLBACK")
    environment = {k: v for k, v in os.environ.items() if k not in removed}
    return subprocess.run([sys.executable, "-B", *code], env={**environment, **variables},
                          capture_output=True, text=True, timeout=60)


def test_kiln_library_path_may_name_a_directory():
    ended = run(["-c", "import kiln; print(kiln.version())"], KILN_LIBRARY_PATH=str(BUILD / "lib"))
    assert ended.stdout.strip() == kiln.__version__, ended.stderr


def test_kiln_library_path_may_name_a_file():
    ended = run(["-c", "import kiln; print(kiln.load_library())"],
                KILN_LIBRARY_PATH=str(BUILD / "lib/libkiln.so.0"))
    assert ended.stdout.strip() == str(BUILD / "lib/libkiln.so.0"), ended.stderr


def test_a_path_parameter_precedes_kiln_library_path():
    ended = run(["-c", f"import kiln; kiln.load_library('{BUILD}/lib'); print(kiln.version())"],
                KILN_LIBRARY_PATH="/nowhere/libkiln.so.0")
    assert ended.stdout.strip() == kiln.__version__, ended.stderr


def test_without_a_path_the_dynamic_linker_finds_libkiln():
    ended = run(["-c", "import kiln; print(kiln.load_library())"],
                LD_LIBRARY_PATH=str(BUILD / "lib"))
    assert ended.stdout.strip() == "libkiln.so.0", ended.stderr


def test_a_libkiln_inside_the_package_precedes_that_of_the_dynamic_linker(tmp_path):
    """In a wheel, libkiln is inside the package."""
    package = tmp_path / "kiln"
    shutil.copytree(SOURCE / "libclient/python/kiln", package,
                    ignore=shutil.ignore_patterns("__pycache__"))
    (package / "lib").mkdir()
    shutil.copy(BUILD / "lib/libkiln.so.0", package / "lib")
    ended = run(["-c", "import kiln; print(kiln.load_library())"], PYTHONPATH=str(tmp_path),
                LD_LIBRARY_PATH=str(BUILD / "lib"))
    assert ended.stdout.strip() == str(package / "lib/libkiln.so.0"), ended.stderr


def test_importing_kiln_needs_no_libkiln():
    ended = run(["-c", "import kiln; kiln.Problem(n=1, c=1, k=1, input=(1, 1), filter=1)"],
                KILN_LIBRARY_PATH="/nowhere/libkiln.so.0")
    assert ended.returncode == 0, ended.stderr


FAILS = """
import kiln, pickle
try:
    kiln.Client()
except kiln.LibraryError as error:
    assert error.code == kiln.ErrorCode.UNAVAILABLE and not error.retryable
    assert type(pickle.loads(pickle.dumps(error))) is kiln.LibraryError
    print(error)
"""


def test_an_absent_libkiln_is_reported_with_advice():
    ended = run(["-c", FAILS], KILN_LIBRARY_PATH="/nowhere/libkiln.so.0")
    assert "'/nowhere/libkiln.so.0'" in ended.stdout, ended.stderr
    assert "KILN_LIBRARY_PATH" in ended.stdout


def test_a_library_other_than_libkiln_is_refused():
    ended = run(["-c", FAILS], KILN_LIBRARY_PATH="libc.so.6")
    assert "'libc.so.6' lacks" in ended.stdout, ended.stderr
    assert "kiln_error_name" in ended.stdout


ASKS = """
import kiln
try:
    kiln.Client('/nowhere/kilnd.sock').ping()
except kiln.UnavailableError as error:
    print(error)
"""


def test_without_an_installed_kilnd_its_package_is_named(tmp_path):
    """Tests a copy of libkiln alone, as if the other packages of kiln were not installed."""
    shutil.copy(BUILD / "lib/libkiln.so.0", tmp_path)
    ended = subprocess.run(
        [sys.executable, "-B", "-c", ASKS], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "KILN_LIBRARY_PATH": str(tmp_path), "KILN_FALLBACK": "private",
             "HOME": str(tmp_path), "PATH": "/nowhere"}, timeout=60)
    assert "/nowhere/kilnd.sock" in ended.stdout, ended.stderr
    assert "install the package kiln" in ended.stdout


MAJOR, MINOR, _ = map(int, kiln.__version__.split("."))


@pytest.mark.parametrize("version,taken", [
    (f"{MAJOR}.{MINOR}.99", True), (f"{MAJOR}.{MINOR + 1}.0", False),
    (f"{MAJOR + 1}.{MINOR}.0", False)])
def test_a_libkiln_of_another_minor_version_is_refused(tmp_path, version, taken):
    functions = [f"int {name}(void) {{ return 0; }}" for name, *_ in _abi.FUNCTIONS
                 if name != "kiln_version"]
    compiler("-x", "c", "-", "-shared", "-fPIC", "-o", tmp_path / "libkiln.so.0", text="\n".join(
        [*functions, f'const char *kiln_version(void) {{ return "{version}"; }}']))
    ended = run(["-c", "import kiln; print(kiln.load_library())"], KILN_LIBRARY_PATH=str(tmp_path))
    assert (ended.returncode == 0) == taken, ended.stderr
    message = f"libkiln {version}, and this package is for {kiln.__version__}:"
    assert taken or message in ended.stderr


def test_a_second_libkiln_in_one_process_is_refused(tmp_path):
    other = tmp_path / "libkiln.so.0"
    other.write_bytes((BUILD / "lib/libkiln.so.0").read_bytes())
    kiln.load_library(BUILD / "lib")
    kiln.load_library()
    try:
        kiln.load_library(other)
    except kiln.InvalidError as error:
        assert "already" in str(error)
    else:
        raise AssertionError("two libraries in one process")


def test_the_versions_of_the_package_and_libkiln_agree():
    project = (SOURCE / "libclient/python/pyproject.toml").read_text()
    assert kiln.version() == kiln.__version__ == os.environ.get("KILN_VERSION", kiln.__version__)
    assert f'\nversion = "{kiln.__version__}"\n' in project


def test_python_m_kiln_reports_the_library_and_the_daemon(daemon):
    ended = run(["-m", "kiln"], KILN_LIBRARY_PATH=str(BUILD / "lib"), KILN_SOCKET=daemon.socket)
    assert ended.returncode == 0, ended.stderr
    assert f"pid {daemon.process.pid}, answers" in ended.stdout


def main_without_kilnd(tmp_path, **variables):
    ended = run(["-m", "kiln"], KILN_LIBRARY_PATH=str(BUILD / "lib"), HOME=str(tmp_path),
                KILN_SOCKET=str(tmp_path / "none.sock"), XDG_CACHE_HOME=str(tmp_path / "cache"),
                XDG_RUNTIME_DIR=str(tmp_path), KILN_FALLBACK_PATIENCE="600000",
                KILND_IDLE_EXIT="1s", **variables)
    assert f"kiln {kiln.__version__}" in ended.stdout
    assert "kilnd 0" not in ended.stdout
    assert ended.stderr.startswith("kiln: no kilnd at '") and ended.stderr.count("\n") == 1
    assert "none.sock" in ended.stderr
    return ended


def test_python_m_kiln_without_kilnd_fails_and_reports_the_fallback(tmp_path):
    ended = main_without_kilnd(tmp_path)
    assert ended.returncode == 3
    assert "no kilnd of the host: a private one, pid " in ended.stdout
    assert "kiln/private" in ended.stderr


def test_python_m_kiln_fails_without_kilnd_and_fallback(tmp_path):
    ended = main_without_kilnd(tmp_path, KILN_FALLBACK="off")
    assert ended.returncode == 3
    assert "engine" not in ended.stdout


def test_python_m_kiln_fails_without_libkiln():
    ended = run(["-m", "kiln"], KILN_LIBRARY_PATH="/nowhere/libkiln.so.0")
    assert ended.returncode == 1
    assert "'/nowhere/libkiln.so.0'" in ended.stderr
