# SPDX-License-Identifier: MIT
# flake8: noqa: F811 (the arguments are imported fixtures)
"""Tests what libkiln-rtc does about the files that a compile reads, or looks for in vain."""
import os
import subprocess
import sys
import time

import pytest

from conftest import WAIT_MAX_S, wait_until
from jobs import FAKE
from test_rtc import daemon, job  # noqa: F401 (fixtures)

INCLUDES = '#include "a.h"\\nint x;'


@pytest.fixture
def headers(job):
    for name in "first", "second":
        (job.directory / name).mkdir()
    (job.directory / "second/a.h").write_text("int old;\n")
    options = [part for name in ("first", "second")
               for part in ("--option", f"-I{job.directory}/{name}")]
    wait_until("the clock to pass the header's time", lambda: is_old(job.directory / "second/a.h"))
    return options


def is_old(path):
    """Returns whether the clock that the kernel uses for files' times has moved since |path|
    changed."""
    return time.clock_gettime_ns(5) > os.stat(path).st_ctime_ns  # CLOCK_REALTIME_COARSE


@pytest.mark.parametrize("function", ["fork", "vfork", "posix_spawn", "posix_spawnp", "system",
                                      "popen"])
def test_a_compile_that_starts_a_process_is_not_stored(job, function):
    """The process may read files, which libkiln-rtc cannot record."""
    assert job.check(f"#start {function}\\nint x;") == (1, 1)
    assert "it starts a process, whose files are not seen" in job.said


def test_files_that_are_the_same_answer(job, headers):
    assert job.check(*headers, INCLUDES) == (1, 0)


def test_a_header_that_changes_while_a_process_runs_is_read_again(job, headers):
    header = job.directory / "second/a.h"
    source = INCLUDES.replace("\\n", "\n").encode()
    script = job.directory / "compile.py"
    script.write_text(f"""
import ctypes, os, pathlib, time
library = ctypes.CDLL({str(FAKE)!r})
options = (ctypes.c_char_p * 1)(b"-I{header.parent}")
def compile(source):
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), source, None, 0, None, None)
    assert library.nvrtcCompileProgram(program, 1, options) == 0
compile({source!r} + b"// 1")
compile({source!r} + b"// 2")
header = pathlib.Path({str(header)!r})
header.write_text("int new;")
while time.clock_gettime_ns(5) <= header.stat().st_ctime_ns:
    time.sleep(0.001)
compile({source!r} + b"// 3")
""")
    subprocess.run([sys.executable, script], env=job.environment, timeout=WAIT_MAX_S, check=True,
                   cwd=job.directory)
    assert job.compiles() == 3
    arguments = ["--option", f"-I{header.parent}", INCLUDES + "// 3"]
    assert job.check(*arguments) == (0, 0)
    header.write_text("int old;")
    wait_until("the clock to pass the header's time", lambda: is_old(header))
    assert job.check(*arguments) == (1, 0)


def test_a_header_that_changed_is_a_miss(job, headers):
    assert job.check(*headers, INCLUDES) == (1, 0)
    header = job.directory / "second/a.h"
    header.write_text("int new;\n")
    wait_until("the clock to pass the header's time", lambda: is_old(header))
    assert job.check(*headers, INCLUDES) == (1, 0)
    header.write_text("int old;\n")  # the result of the first compile is still stored
    assert job.check(*headers, INCLUDES) == (0, 0)


def test_a_header_that_was_only_touched_is_a_hit(job, headers):
    assert job.check(*headers, INCLUDES) == (1, 0)
    os.utime(job.directory / "second/a.h", (5, 5))
    assert job.check(*headers, INCLUDES) == (0, 0)


def test_a_header_that_appears_earlier_in_the_path_is_a_miss(job, headers):
    assert job.check(*headers, INCLUDES) == (1, 0)
    header = job.directory / "first/a.h"
    header.write_text("int earlier;\n")
    wait_until("the clock to pass the header's time", lambda: is_old(header))
    assert job.check(*headers, INCLUDES) == (1, 0)


def write_at_once(texts):
    """Writes files that have the same times. Linux sets times by a clock that ticks every few
    milliseconds."""
    def try_once():
        for path, text in texts.items():
            path.unlink(missing_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT)
            os.write(fd, text.encode())
            os.close(fd)
        return len({path.stat().st_ctime_ns for path in texts}) == 1

    wait_until("files with the same times", try_once)


def test_a_header_that_another_of_the_same_size_and_times_replaces_is_a_miss(job):
    for name in "one", "two":
        (job.directory / name).mkdir()
    write_at_once({job.directory / name / "a.h": f"int {name};\n" for name in ("one", "two")})
    wait_until("the clock to pass the header's time", lambda: is_old(job.directory / "two/a.h"))
    current = job.directory / "current"
    for name in "one", "two":
        current.unlink(missing_ok=True)
        current.symlink_to(name)
        assert job.check("--option", f"-I{current}", INCLUDES) == (1, 0), name


def test_a_file_that_is_no_longer_another_name_of_a_header_is_a_miss(job, headers):
    """With #pragma once, a compiler reads only one of two names of a file."""
    header, other = job.directory / "second/a.h", job.directory / "second/b.h"
    other.hardlink_to(header)
    wait_until("the clock to pass the header's time", lambda: is_old(header))
    arguments = [*headers, INCLUDES.replace("int x", f"#look {other}\\nint x")]
    options = {"environment": {"FAKE_NVRTC_LOOKS": "__xstat"}}
    assert job.check(*arguments, **options) == (1, 0)
    other.unlink()
    other.write_text(header.read_text())
    assert job.check(*arguments, **options) == (1, 0)


def test_a_link_to_a_header_is_a_hit_where_files_have_other_numbers(job, headers):
    """Each container and each copy of an image gives its files other inode numbers and times."""
    header, other = job.directory / "second/a.h", job.directory / "second/b.h"
    other.symlink_to(header)
    arguments = [*headers, INCLUDES.replace("int x", f"#look {other}\\nint x")]
    options = {"environment": {"FAKE_NVRTC_LOOKS": "__xstat"}}
    assert job.check(*arguments, **options) == (1, 0)
    text = header.read_text()
    header.rename(header.with_name("old.h"))
    header.write_text(text)
    assert job.check(*arguments, **options) == (0, 0)


def test_two_names_under_which_a_header_was_read_must_stay_names_of_one_file(job, headers):
    """With #pragma once, clang uses only one of them, but opens both."""
    header, other = job.directory / "second/a.h", job.directory / "second/b.h"
    other.hardlink_to(header)
    wait_until("the clock to pass the header's time", lambda: is_old(header))
    source = '#include "a.h"\\n#include "b.h"\\nint x;'
    assert job.check(*headers, source) == (1, 0)
    other.unlink()
    other.write_text(header.read_text())
    wait_until("the clock to pass the header's time", lambda: is_old(other))
    assert job.check(*headers, source) == (1, 0)


def test_a_listed_directory_is_the_same_if_it_has_the_same_entries(job, headers):
    directory = job.directory / "second"
    arguments = [f"#list {directory}\\nint x;"]
    assert job.check(*arguments) == (1, 0)
    (directory / "new").touch()
    (directory / "new").unlink()
    assert job.check(*arguments) == (0, 0)
    (directory / "new").touch()
    wait_until("the clock to pass the directory's time", lambda: is_old(directory))
    assert job.check(*arguments) == (1, 0)


def test_each_of_many_files_is_checked(job, headers):
    """For one kernel, CuPy's headers are 116 files, and NVRTC looks for 198 more in vain."""
    for i in range(116):
        (job.directory / f"second/h{i}.h").write_text(f"int h{i};\n")
    wait_until("the clock to pass the headers' times",
               lambda: is_old(job.directory / "second/h115.h"))
    source = "".join(f'#include "h{i}.h"\\n' for i in range(116))
    assert job.check(*headers, source) == (1, 0)
    for path in "second/h115.h", "first/h57.h", "h0.h":
        header = job.directory / path
        header.write_text("int changed;\n")
        wait_until("the clock to pass the header's time", lambda: is_old(header))
        assert job.check(*headers, source) == (1, 0), path


def test_a_header_that_is_missing_beside_the_program_may_be_missing_elsewhere(job, headers):
    names = [job.directory / random / "k.cu" for random in ("a1b2", "c3d4")]
    for name in names:
        name.parent.mkdir()
    assert job.check(*headers, "--name", names[0], INCLUDES) == (1, 0)
    assert job.check(*headers, "--name", names[1], INCLUDES) == (0, 0)
    header = names[1].with_name("a.h")
    header.write_text("int beside;\n")
    wait_until("the clock to pass the header's time", lambda: is_old(header))
    assert job.check(*headers, "--name", names[1], INCLUDES) == (1, 0)
    assert job.check(*headers, "--name", names[0], INCLUDES) == (0, 0)


def test_a_header_is_not_missed_where_an_option_names_the_programs_directory(job, headers):
    for random in "a1b2", "c3d4":
        (job.directory / random).mkdir()
    option = f"-I{job.directory}/a1b2"
    arguments = ["--option", option, *headers, INCLUDES]
    assert job.check("--name", job.directory / "a1b2/k.cu", *arguments) == (1, 0)
    header = job.directory / "a1b2/a.h"
    header.write_text("int beside;\n")
    wait_until("the clock to pass the header's time", lambda: is_old(header))
    assert job.check("--name", job.directory / "c3d4/k.cu", *arguments) == (1, 0)


@pytest.mark.parametrize("line, compiles", [
    ("#if defined(N)\n#define in __BASE_FILE__\n#endif\n", 0),
    ("// We define x elsewhere, from __BASE_FILE__.\n", 0), ("#  define x __BASE_FILE__\n", 1),
    ("int y = sizeof(__BASE_FILE__);\n", 1)])
def test_a_name_matters_if_the_source_uses_a_macro_with_it(job, headers, line, compiles):
    header = job.directory / "second/a.h"
    header.write_text(line)
    wait_until("the clock to pass the header's time", lambda: is_old(header))
    for name in "/tmp/a1b2/k.cu", "/tmp/c3d4/k.cu":
        job.compiles()
        job.run(*headers, "--name", name, INCLUDES)
    assert job.compiles() == compiles


@pytest.fixture
def places(job):
    """Each of the two directories contains a different file inc/a.h."""
    places = [job.directory / name for name in ("here", "there")]
    for place in places:
        (place / "inc").mkdir(parents=True)
        header = place / "inc/a.h"
        header.write_text(f"int of_{place.name};\n")
    wait_until("the clock to pass the header's time", lambda: is_old(header))
    return places


RELATIVE = ["--option", "-Iinc", INCLUDES]


@pytest.mark.parametrize("beginning", ["/proc/self/cwd", "/proc/..{place}", "/sys/..{place}"])
def test_a_path_in_proc_or_sys_may_lead_to_a_header(job, places, beginning):
    current = job.directory / "current"
    option = "-I" + beginning.format(place=current) + "/inc"
    for place in places:
        current.unlink(missing_ok=True)
        current.symlink_to(place)
        arguments = ["--name", "/tmp/a1b2/k.cu", "--option", option, INCLUDES]
        assert job.check(*arguments, cwd=place) == (1, 0)


@pytest.mark.parametrize("name", [[], ["--name", "/tmp/a1b2/k.cu"]])
def test_a_relative_path_is_that_of_the_current_directory(job, places, name):
    for compiles in 1, 0:
        for place in places:
            assert job.check(*name, *RELATIVE, cwd=place) == (compiles, 0)


def test_the_same_header_in_another_directory_answers(job, places):
    for place in places:
        (place / "inc/a.h").write_text("int same;\n")
    (places[1] / "earlier").mkdir()
    header = places[1] / "earlier/a.h"
    arguments = ["--name", "/tmp/a1b2/k.cu", "--option", "-Iearlier", *RELATIVE]
    wait_until("the clock to pass the header's time", lambda: is_old(places[1] / "inc/a.h"))
    assert job.check(*arguments, cwd=places[0]) == (1, 0)
    assert job.check(*arguments, cwd=places[1]) == (0, 0)
    header.write_text("int other;\n")
    wait_until("the clock to pass the header's time", lambda: is_old(header))
    assert job.check(*arguments, cwd=places[1]) == (1, 0)
    assert job.check(*arguments, cwd=places[0]) == (0, 0)


@pytest.mark.parametrize("function", ["__xstat", "__xstat64", "__lxstat", "__lxstat64",
                                      "__fxstatat", "__fxstatat64", "__open_2", "__open64_2",
                                      "__openat_2", "__openat64_2"])
def test_functions_of_an_older_glibc_and_of_fortified_code_are_noted(job, function):
    missing = job.directory / "missing"
    source = f"#look {missing}\\n#look {job.directory}\\nint x;"
    options = {"environment": {"FAKE_NVRTC_LOOKS": function}}
    assert job.check(source, **options) == (1, 0)
    missing.touch()
    wait_until("the clock to pass the file's time", lambda: is_old(missing))
    assert job.check(source, **options) == (1, 0)


@pytest.mark.parametrize("call, compiles_again", [("chdir", 1), ("syscall_chdir", 0)])
def test_a_compile_during_which_the_directory_changes_is_not_stored(job, places, call,
                                                                    compiles_again):
    """A call of chdir counts as a change even if the directory stays the same."""
    arguments = ["--name", "/tmp/a1b2/k.cu", "--option", "-Iinc",
                 INCLUDES + f"\\n#{call} {places[1]}"]
    assert job.check(*arguments, cwd=places[0]) == (1, 1)
    assert "current directory changed" in job.said
    assert job.check(*arguments, cwd=places[1]) == (1, compiles_again)


def test_a_compile_during_which_the_directory_changes_and_changes_back_is_not_stored(job, places):
    source = f"#chdir {places[1]}\\n{INCLUDES}\\n#chdir {places[0]}"
    arguments = ["--name", "/tmp/a1b2/k.cu", "--option", "-Iinc", source]
    assert job.check(*arguments, cwd=places[0]) == (1, 1)
    assert "current directory changed" in job.said


def test_a_header_in_memory_is_read_from_no_file(job, headers):
    assert job.check(*headers, "--header", "a.h=int m;", INCLUDES) == (1, 0)
    (job.directory / "first/a.h").write_text("int earlier;\n")
    assert job.check(*headers, "--header", "a.h=int m;", INCLUDES) == (0, 0)


@pytest.mark.parametrize("commands, reason", [
    ("#write other", "it writes a file"),
    ('#include "a.h"\n#change second/a.h', "a file that it read changed meanwhile"),
    ("#list second\n#change second", "a directory that it listed changed meanwhile")])
def test_a_compile_with_side_effects_is_not_stored(job, headers, commands, reason):
    """#change comes from another program: libkiln-rtc does not see it."""
    assert job.check(*headers, commands + "\nint i;") == (1, 1)
    assert reason in job.said


@pytest.mark.parametrize("line", ["int seconds = sizeof(__TIME__);\n",
                                  "#define C(a, b) a##b\nint seconds = sizeof(C(__TI, ME__));\n"])
def test_a_header_with_the_time_is_not_stored(job, headers, line):
    header = job.directory / "second/a.h"
    header.write_text(line)
    wait_until("the clock to pass the header's time", lambda: is_old(header))
    assert job.check(*headers, INCLUDES) == (1, 1)
    assert "contains the time" in job.said
