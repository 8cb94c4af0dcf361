# SPDX-License-Identifier: MIT
"""Runs modules of CPython's own tests with libkiln-rtc, and those that fail also without it.

Usage: cpython.py LIBRARY

A module that passes without the library must pass with it. Exits with 77 if the tests are not
installed.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

# Test modules of CPython that fork, start threads and processes, open libraries, handle signals,
# and use files.
MODULES = ("test_fork1", "test_threading", "test_thread", "test_signal", "test_threadsignals",
           "test_wait3", "test_wait4", "test_subprocess", "test_popen", "test_ctypes", "test_os",
           "test_posix", "test_mmap", "test_select", "test_tempfile", "test_shutil",
           "test_faulthandler")
PYTHONS = ("/usr/bin/python3", sys.executable)
AT_ONCE = 4
ROUNDS = 2
MODULE_MAX_S = 280
PASSED_MIN = 12  # fewer modules would not show much


def find_python():
    for python in PYTHONS:
        if subprocess.run([python, "-c", "import test.test_fork1, test.test_threading"],
                          stderr=subprocess.DEVNULL, timeout=MODULE_MAX_S,
                          check=False).returncode == 0:
            return python
    return None


def run_module(python, module, library):
    """Returns None if the module passes. Otherwise returns the end of the module's output."""
    environment = dict(os.environ, KILN_FALLBACK="off")
    if library:
        environment["LD_PRELOAD"] = library
    with tempfile.TemporaryDirectory(prefix="kiln-rtc-python-") as directory:
        try:
            done = subprocess.run([python, "-m", "test", module], env=environment, cwd=directory,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=MODULE_MAX_S, check=False)
        except subprocess.TimeoutExpired:
            return f"it did not end within {MODULE_MAX_S} s"
    text = done.stdout.decode(errors="replace")
    return None if done.returncode == 0 else "\n".join(text.splitlines()[-40:])


def run_modules(python, modules, library):
    """Returns the modules that fail, and the output of each."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        said = pool.map(lambda module: run_module(python, module, library), modules)
        return {module: text for module, text in zip(modules, said) if text is not None}


def compare(python, library):
    """Returns the modules that fail only with the library, and those that also fail without it.

    A module that fails runs again up to ROUNDS times both ways, because some depend on time.
    """
    failed, omitted = run_modules(python, MODULES, library), {}
    for _ in range(ROUNDS):
        omitted |= run_modules(python, tuple(failed), None)
        failed = run_modules(python, tuple(set(failed) - set(omitted)), library)
    return failed, omitted


def main(library):
    python = find_python()
    if not python:
        print("skipped: CPython's tests are not installed; Debian's package for Python 3.11 is "
              "libpython3.11-testsuite")
        return 77
    failed, omitted = compare(python, library)
    for module, text in failed.items():
        print(f"---- {module} fails with libkiln-rtc\n{text}")
    for module in omitted:
        print(f"{module} is not compared, because it fails without libkiln-rtc")
    passed = len(MODULES) - len(failed) - len(omitted)
    print(f"{passed} of {len(MODULES)} modules pass with libkiln-rtc")
    return 1 if failed or passed < PASSED_MIN else 0


if __name__ == "__main__":
    sys.exit(main(str(pathlib.Path(sys.argv[1]).resolve())))
