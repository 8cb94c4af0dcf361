# SPDX-License-Identifier: MIT
"""Tests the contents of an installation that is built without a network."""
import shutil
import subprocess
import sys

import pytest

from conftest import SOURCE

PACKAGE = SOURCE / "libclient/python"


def test_a_python_build_has_every_module_and_the_types_marker(tmp_path):
    pytest.importorskip("setuptools", minversion="61", reason="no setuptools that reads pyproject")
    copy = tmp_path / "source"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "build", "*-info"))
    subprocess.run([sys.executable, "-B", "-c", "import setuptools; setuptools.setup()", "-q",
                    "build", "--build-base", tmp_path / "base", "--build-lib", tmp_path / "lib"],
                   cwd=copy, check=True, capture_output=True, timeout=60)
    built = {p.relative_to(tmp_path / "lib").as_posix() for p in (tmp_path / "lib").rglob("*.*")}
    wanted = {p.relative_to(PACKAGE).as_posix()
              for p in (PACKAGE / "kiln").rglob("*") if p.is_file() and p.suffix != ".pyc"}
    assert built == wanted and "kiln/py.typed" in built


def test_pip_installs_the_package_without_a_network(tmp_path):
    for module in ("pip", "wheel", "setuptools"):
        pytest.importorskip(module, reason=f"no {module} for this Python")
    copy = tmp_path / "source"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "build", "*-info"))
    there = tmp_path / "there"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index",
                    "--no-build-isolation", "--no-deps", "--no-cache-dir", "--no-compile",
                    "--disable-pip-version-check", "--target", there, copy],
                   check=True, capture_output=True, timeout=60)
    said = subprocess.run([sys.executable, "-B", "-c",
                           "import kiln; print(kiln.__file__, kiln.__version__)"],
                          cwd=tmp_path, env={"PYTHONPATH": str(there)}, check=True,
                          capture_output=True, text=True, timeout=60).stdout
    assert said.startswith(f"{there}/kiln/__init__.py ")
    assert (there / "kiln/py.typed").is_file()


def test_the_installed_package_has_all_public_names():
    import kiln
    assert sorted(kiln.__all__) == kiln.__all__
    assert all(hasattr(kiln, name) for name in kiln.__all__)


def test_nothing_beyond_the_standard_library_is_imported():
    code = ("import sys; before = set(sys.modules); import kiln, kiln.__main__; "
            "print(*{m.split('.')[0] for m in set(sys.modules) - before} "
            "- set(sys.stdlib_module_names) - {'kiln'})")
    if sys.version_info < (3, 10):
        pytest.skip("this Python has no list of its standard modules")
    ended = subprocess.run([sys.executable, "-B", "-c", code], check=True, capture_output=True,
                           text=True, timeout=60)
    assert ended.stdout.strip() == ""
