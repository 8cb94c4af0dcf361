# SPDX-License-Identifier: MIT
"""Tests kiln-cc and kiln-ptxas, which start a compiler or take its output from kilnd."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from conftest import BUILD, WAIT_MAX_S, wait_until
from jobs import HERE, daemon  # noqa: F401  (a fixture)
from test_files import is_old

KILN_CC, KILN_PTXAS = BUILD / "bin/kiln-cc", BUILD / "bin/kiln-ptxas"
CLANG, PTXAS = HERE / "compilers/clang", HERE / "compilers/ptxas"
REAL_PTXAS = pathlib.Path("/usr/local/cuda/bin/ptxas")
REAL_CLANG = shutil.which("clang-19", path="/usr/bin:/usr/lib/llvm-19/bin")
CLANG_14 = shutil.which("clang-14", path="/usr/bin:/usr/lib/llvm-14/bin")
HIP = ["-x", "hip", "--offload-arch=gfx942", "-c"]
REAL_HIP = ["-x", "hip", "--offload-arch=gfx942", "--cuda-device-only", "-nogpuinc", "-nogpulib",
            "--no-gpu-bundle-output"]
# Variables that do not change an output: the directory for temporary files, and the current
# directory, which counts if the output contains it. LLVM reads "bar" to keep a function.
NO_EFFECT = {"PWD", "TMP", "TEMP", "TMPDIR", "TEMPDIR", "NO_COLOR", "bar"}
STORED, ANSWERED = "compiled here and stored", "answered by kilnd"
UNKNOWN = "an option is unknown or has side effects, or there are more files"
OUTPUT = "the output is not a plain file, or has other permissions than a new file"
WRAPPED = "another program than the named compiler was started"
LOST = "it opens a file or library whose path is not known"
TIME = "the source contains the time of its compile, or may contain it"


def is_running(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ignore_ends():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def heed_signals():
    """A shell lets programs in the background ignore SIGINT and SIGQUIT, and nohup SIGHUP."""
    for number in signal.SIGINT, signal.SIGQUIT, signal.SIGHUP:
        signal.signal(number, signal.SIG_DFL)


class Launcher:
    """Runs compilers by kiln-cc."""

    def __init__(self, daemon, directory):
        self.directory = directory
        self.log = directory / "runs"
        self.environment = dict(daemon.environment, KILN_RTC_DEBUG="1", FAKE_CC_LOG=str(self.log),
                                KILN_RTC_PATIENCE=str(WAIT_MAX_S * 1000), KILN_PTXAS=str(PTXAS))

    def write(self, name, text):
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        wait_until("the clock to pass the file's time", lambda: is_old(path))

    def start(self, *command, status=0, **environment):
        done = subprocess.run([*map(str, command)], env=dict(self.environment, **environment),
                              text=True, capture_output=True, timeout=WAIT_MAX_S,
                              cwd=self.directory)
        assert done.returncode == status, done.stderr
        lines = done.stderr.splitlines(keepends=True)
        own = [line for line in lines if line.startswith("libkiln-rtc: ")]
        self.end = own[-1].rpartition(": ")[2].strip() if own else None
        said = "".join(line for line in lines if line not in own)
        return done.stdout, re.sub("Compile time = .*", "", said)

    def begin(self, *command):
        return subprocess.Popen([*map(str, command)], env=self.environment, cwd=self.directory,
                                stderr=subprocess.DEVNULL, preexec_fn=heed_signals)

    def run(self, *arguments, output="k.o", **options):
        """Returns the output, its mode, and what the compiler printed."""
        path = self.directory / output
        path.unlink(missing_ok=True)
        printed = self.start(*arguments, "-o", output, **options)
        return (path.read_bytes(), os.stat(path).st_mode, printed) if path.exists() else printed

    def runs(self):
        """Returns how many times the compiler has run since the last call."""
        count = len(self.log.read_text().splitlines()) if self.log.exists() else 0
        self.log.unlink(missing_ok=True)
        return count

    def check(self, compiler, *arguments, **options):
        """Checks that a compile has the same results with and without kiln-cc, cold and warm.
        Returns how the compiles ended."""
        expected = self.run(compiler, *arguments, **options)
        ends = []
        for _ in range(2):
            assert self.run(KILN_CC, compiler, *arguments, **options) == expected
            ends.append(self.end)
        return ends


@pytest.fixture
def launcher(daemon, tmp_path):  # noqa: F811
    daemon.kilnctl("clear", "--own", "--yes")
    made = Launcher(daemon, tmp_path)
    made.write("k.hip", "int k;\n")
    return made


def test_a_second_compile_does_not_start_the_compiler(launcher):
    assert launcher.check(CLANG, *HIP, "k.hip") == [STORED, ANSWERED]
    assert launcher.runs() == 2  # one of them without kiln-cc


def test_the_compilers_messages_are_repeated(launcher):
    launcher.write("k.hip", "#warning w\nint k;\n")
    assert launcher.check(CLANG, *HIP, "k.hip") == [STORED, ANSWERED]


def test_an_error_is_not_stored(launcher):
    launcher.write("k.hip", "#error e\n")
    assert launcher.check(CLANG, *HIP, "k.hip", status=3) == ["the compile failed"] * 2


def test_an_input_that_does_not_exist(launcher):
    """The compiler says so."""
    expected = launcher.run(CLANG, *HIP, "none.hip", status=1)
    assert "none.hip" in expected[1]
    assert launcher.run(KILN_CC, CLANG, *HIP, "none.hip", status=1) == expected
    assert launcher.end == "the input cannot be read, or is larger than 64 MiB"


def test_each_input_counts(launcher):
    for option in [], ["-DN=1"], ["-mllvm", "-amdgpu-prelink"]:
        assert launcher.check(CLANG, *HIP, *option, "k.hip") == [STORED, ANSWERED]
    launcher.write("k.hip", "int other;\n")
    assert launcher.check(CLANG, *HIP, "k.hip") == [STORED, ANSWERED]
    assert launcher.check(CLANG, *HIP, "k.hip", HIP_PATH="/x") == [STORED, ANSWERED]


def test_a_header_that_changed_or_appeared_is_a_miss(launcher):
    launcher.write("k.hip", '#include "a.h"\n')
    launcher.write("second/a.h", "int a;\n")
    (launcher.directory / "first").mkdir()
    compile = [CLANG, *HIP, "-Ifirst", "-Isecond", "k.hip"]
    assert launcher.check(*compile) == [STORED, ANSWERED]
    launcher.write("second/a.h", "int b;\n")
    assert launcher.check(*compile) == [STORED, ANSWERED]
    launcher.write("first/a.h", "int c;\n")
    assert launcher.check(*compile) == [STORED, ANSWERED]


def test_a_compiler_that_was_replaced_compiles_again(launcher):
    copy = launcher.directory / "clang-1"
    for _ in range(2):
        shutil.copy(CLANG, copy)
        wait_until("the clock to pass the file's time", lambda: is_old(copy))
        assert launcher.check(copy, *HIP, "k.hip") == [STORED, ANSWERED]


@pytest.mark.parametrize("given, reason", [
    (["-nonsense"], UNKNOWN), (["-mllvm", "-stats"], UNKNOWN), (["second.hip"], UNKNOWN),
    (["@file"], "a file has further options"), (["-I", "@file"], "a file has further options"),
    (["--offload-arch=native"], "the output depends on the GPUs of the host"),
    (["-DT=__TIME__"], TIME)])
def test_a_compiler_with_other_options_is_started_unchanged(launcher, given, reason):
    launcher.write("file", "-c\n")
    launcher.write("second.hip", "int s;\n")
    assert launcher.check(CLANG, *HIP, *given, "k.hip") == [reason] * 2


def test_an_x_after_the_input_does_not_apply_to_it(launcher):
    launcher.write("k.cl", "int k;\n")
    assert launcher.check(CLANG, "-c", "k.cl", "-x", "hip") == [UNKNOWN] * 2


def test_a_variable_that_adds_options_starts_the_compiler_unchanged(launcher):
    ends = launcher.check(CLANG, *HIP, "k.hip", CCC_OVERRIDE_OPTIONS="+-w")
    assert ends == ["an environment variable adds options"] * 2


def test_a_compile_for_the_host_is_not_stored(launcher):
    launcher.write("k.c", "int k;\n")
    assert launcher.check(CLANG, "-c", "k.c") == ["it is not a compile for a GPU"] * 2


@pytest.mark.parametrize("name", ["clang++", "clang-19", "amdclang", "amdclang++", "clang-cpp",
                                  "clang-cl"])
def test_each_name_of_clang_is_another_compiler(launcher, name):
    """LLVM installs one program under many names, which it reads to choose what to do."""
    (launcher.directory / name).symlink_to(CLANG)
    assert launcher.check(CLANG, *HIP, "k.hip") == [STORED, ANSWERED]
    known = name not in ("clang-cpp", "clang-cl")
    assert launcher.check(launcher.directory / name, *HIP, "k.hip") == (
        [STORED, ANSWERED] if known else ["kiln-cc does not know the compiler"] * 2)


@pytest.mark.parametrize("prepare, output", [
    (lambda path: path.symlink_to("other"), "link.o"),
    (lambda path: (path.write_text(""), os.link(path, path.parent / "second.o")), "linked.o"),
    (lambda path: (path.write_text(""), path.chmod(0o600)), "private.o"),
    (lambda path: os.mkfifo(path), "pipe.o")])
def test_an_output_that_may_not_be_replaced(launcher, prepare, output):
    compile = [KILN_CC, CLANG, *HIP, "k.hip", "-o"]
    launcher.write("k.hip", "int k;\n")
    path = launcher.directory / output
    prepare(path)
    before = os.lstat(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if output == "pipe.o" else None
    launcher.start(*compile, output)
    assert launcher.end == OUTPUT
    after = os.lstat(path)
    assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino)
    if reader is not None:
        os.close(reader)


def test_an_output_that_exists_is_replaced(launcher):
    compile = [KILN_CC, CLANG, *HIP, "k.hip", "-o", "k.o"]
    path = launcher.directory / "k.o"
    for end in STORED, ANSWERED:
        path.write_text("something else that is longer\n")
        launcher.start(*compile)
        assert (launcher.end, b"int k;" in path.read_bytes()) == (end, True)
    assert not [name for name in os.listdir(launcher.directory) if "kiln" in name]


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_an_answer_respects_the_umask(launcher, umask):
    before = os.umask(umask)
    try:
        assert launcher.check(CLANG, *HIP, "k.hip") == [STORED, ANSWERED]
    finally:
        os.umask(before)


def test_an_output_of_another_program_is_not_stored(launcher):
    """Another compile, with other options, may write the same output at the same time."""
    launcher.write("k.hip", "#other k.o\nint k;\n")
    assert launcher.check(CLANG, *HIP, "k.hip") == ["another program wrote the output"] * 2


def test_a_file_that_is_renamed_is_a_second_output(launcher):
    launcher.write("k.hip", "#rename second\nint k;\n")
    assert launcher.check(CLANG, *HIP, "k.hip") == ["it writes a file"] * 2


def test_long_messages_are_printed_but_not_stored(launcher):
    launcher.write("k.hip", "#print 1100000\nint k;\n")
    ends = launcher.check(CLANG, *HIP, "k.hip")
    assert [end.startswith("the result is larger") for end in ends] == [True, True], ends


def test_a_precompiled_header_is_not_stored(launcher):
    """clang examines the times of the headers in it."""
    launcher.write("k.hip", '#include "a.pch"\n')
    launcher.write("first/a.pch", "int a;\n")
    ends = launcher.check(CLANG, *HIP, "-Ifirst", "k.hip")
    assert ends == ["it reads a precompiled header or module"] * 2


def test_the_null_device_is_an_input(launcher):
    """clang reads it to bundle the code of a GPU with no code of the host."""
    (launcher.directory / "first").mkdir()
    launcher.write("k.hip", '#include "a.h"\n')
    launcher.write("second/a.h", "int a;\n")
    (launcher.directory / "first/a.h").symlink_to("/dev/null")
    compile = [CLANG, *HIP, "-Ifirst", "-Isecond", "k.hip"]
    assert launcher.check(*compile) == [STORED, ANSWERED]
    (launcher.directory / "first/a.h").unlink()
    launcher.write("first/a.h", "int b;\n")
    assert launcher.check(*compile) == [STORED, ANSWERED]


def test_a_comment_with_a_part_of_a_time_macro_does_not_matter(launcher):
    """As in <bits/types.h>, which HIP's own headers include."""
    launcher.write("k.hip", '#include "a.h"\n')
    launcher.write("first/a.h", "int a; /* Defines __TIME*_T_TYPE macros.  */\n")
    assert launcher.check(CLANG, *HIP, "-Ifirst", "k.hip") == [STORED, ANSWERED]


def run_in(launcher, name, *options, **environment):
    """Compiles in a directory below the launcher's, and returns the output."""
    launcher.write(f"{name}/k.hip", "int k;\n")
    output = launcher.directory / name / "k.o"
    launcher.start("env", "-C", name, KILN_CC, CLANG, *options, "k.hip", "-o", output,
                   **environment)
    return output.read_bytes()


@pytest.mark.parametrize("option, environment, compiles", [
    ("--hip-link", {}, 2), ("--hip-link", {"KILN_CC_ANY_DIRECTORY": "0"}, 2),
    ("--hip-link", {"KILN_CC_ANY_DIRECTORY": "1"}, 1), ("-g", {"KILN_CC_ANY_DIRECTORY": "1"}, 2)])
def test_the_directory_of_a_hip_compile_counts_unless_the_user_allows_any(launcher, option,
                                                                         environment, compiles):
    """MIOpen compiles each kernel in a new directory with a random name. Debug information has the
    directory's path, so then the directory always counts."""
    outputs = {run_in(launcher, name, *HIP, option, **environment) for name in ("a1", "b2")}
    assert (len(outputs), launcher.runs()) == (1, compiles)


# ---- dependency files ----

@pytest.mark.parametrize("given, name", [
    (["-MD"], "k.d"), (["-MMD", "-MP"], "k.d"), (["-MD", "-MT", "a", "-MF", "x.d"], "x.d")])
def test_a_dependency_file_is_a_second_output(launcher, given, name):
    launcher.write("k.hip", '#include "a.h"\n')
    launcher.write("first/a.h", "int a;\n")
    path = launcher.directory / name
    made = []
    for program in [], [KILN_CC], [KILN_CC]:
        path.unlink(missing_ok=True)
        made.append((launcher.run(*program, CLANG, *HIP, "-Ifirst", *given, "k.hip"),
                     path.read_bytes(), os.stat(path).st_mode))
    assert (launcher.end, made[0], b"first/a.h" in made[0][1]) == (ANSWERED, made[2], True)
    assert made[1] == made[0]
    launcher.write("first/a.h", "int b;\n")
    assert launcher.run(KILN_CC, CLANG, *HIP, "-Ifirst", *given, "k.hip") != made[0]
    assert launcher.end == STORED


def test_the_target_in_a_dependency_file(launcher):
    """Without -MT, this is the output's path."""
    launcher.write("k.cl", "int k;\n")
    for output in "a.o", "b.o":
        launcher.run(KILN_CC, CLANG, "-c", "-MD", "-MF", "x.d", "k.cl", output=output)
        assert launcher.end == STORED
        assert (launcher.directory / "x.d").read_text().startswith(output + ":")


@pytest.mark.parametrize("path", ["-", "/dev/stdout", "link.d"])
def test_a_dependency_file_that_is_no_file(launcher, path):
    (launcher.directory / "link.d").symlink_to("other.d")
    launcher.run(KILN_CC, CLANG, *HIP, "-MD", "-MF", path, "k.hip")
    assert launcher.end == OUTPUT


# ---- processes ----

@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_compiler(launcher, number):
    launcher.write("k.hip", "#wait started\nint k;\n")
    with launcher.begin(KILN_CC, CLANG, *HIP, "k.hip", "-o", "k.o") as process:
        wait_until("the compiler to start", (launcher.directory / "started").exists)
        process.send_signal(number)
        assert process.wait(WAIT_MAX_S) == -number
    compiler = int((launcher.directory / "started").read_text())
    wait_until("the compiler to end", lambda: not is_running(compiler))
    assert not (launcher.directory / "k.o").exists()


def test_a_failed_compile_fails_if_the_ends_of_children_are_ignored(launcher):
    """The kernel then forgets how they ended."""
    launcher.write("k.hip", "#error e\n")
    done = subprocess.run([KILN_CC, CLANG, *HIP, "k.hip", "-o", "k.o"], env=launcher.environment,
                          cwd=launcher.directory, check=False, stderr=subprocess.DEVNULL,
                          timeout=WAIT_MAX_S, preexec_fn=ignore_ends)
    assert done.returncode == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_launcher_while_it_stores(launcher, daemon, number):  # noqa: F811
    launcher.write("k.hip", "#until go\nint k;\n")
    with launcher.begin(KILN_CC, CLANG, *HIP, "k.hip", "-o", "k.o") as process:
        begun = launcher.directory / "go.begun"
        wait_until("the compiler to start",
                   lambda: begun.exists() and begun.read_text().endswith("\n"))
        compiler = int(begun.read_text())
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            (launcher.directory / "go").touch()
            wait_until("the compiler to end", lambda: not os.path.exists(f"/proc/{compiler}"))
            process.send_signal(number)
            assert process.wait(WAIT_MAX_S) == -number
        finally:
            daemon.process.send_signal(signal.SIGCONT)


def test_a_killed_launcher_ends_the_compiler(launcher):
    launcher.write("k.hip", "#wait started\nint k;\n")
    with launcher.begin(KILN_CC, CLANG, *HIP, "k.hip", "-o", "k.o") as process:
        wait_until("the compiler to start", (launcher.directory / "started").exists)
        process.kill()
    compiler = int((launcher.directory / "started").read_text())
    wait_until("the compiler to end", lambda: not is_running(compiler))


def test_a_signal_of_the_compiler_is_passed_on(launcher):
    launcher.write("k.hip", "#die 11\nint k;\n")
    for program in [], [KILN_CC]:
        launcher.start(*program, CLANG, *HIP, "k.hip", "-o", "k.o", status=-11)


def test_a_closed_output_starts_the_compiler_unchanged(launcher):
    for number in 0, 1, 2:
        launcher.start("/bin/sh", "-c", f'exec "$@" {number}>&-', "sh", KILN_CC, CLANG, *HIP,
                       "k.hip", "-o", "k.o")
        if number != 2:
            assert launcher.end == "standard input, output or error is closed"
    assert launcher.runs() == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a program of another user")
def test_a_program_with_more_rights_starts_the_compiler_unchanged(launcher):
    """Such a program must not trust the user's environment."""
    program = launcher.directory / "kiln-cc"
    shutil.copy(KILN_CC, program)
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    if os.statvfs(program).f_flag & os.ST_NOSUID:
        pytest.skip(f"{program} is on a file system without setuid programs")
    launcher.directory.chmod(0o777)
    launcher.start(program, "/bin/true", KILN_PTXAS="")
    assert launcher.end == "KILN_RTC=off"


def test_a_kilnd_that_does_not_answer(launcher, daemon):  # noqa: F811
    launcher.run(KILN_CC, CLANG, *HIP, "k.hip")
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        launcher.run(KILN_CC, CLANG, *HIP, "k.hip", KILN_RTC_PATIENCE="200")
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    assert launcher.end == "kilnd did not answer in time"
    assert launcher.runs() == 2


def test_a_compiler_that_cannot_be_preloaded(launcher):
    """A program for another libc, for example, does not start with libkiln-rtc."""
    ends = launcher.check(CLANG, *HIP, "k.hip", FAKE_CC_NO_PRELOAD="1")
    assert ends == ["the compiler does not start with libkiln-rtc"] * 2


def test_a_compiler_without_an_interpreter_line(launcher):
    script = launcher.directory / "clang"
    script.write_text("exit 0\n")
    script.chmod(0o755)
    said = launcher.start(KILN_CC, script, *HIP, "k.hip", "-o", "k.o", status=127)[1]
    assert "cannot run" in said and "Exec format error" in said


@pytest.mark.parametrize("line, reason", [
    ("#write other", "it writes a file"), ("#start", "it starts a process"),
    ("char t[] = __TIME__;", "the source contains the time of its compile, or may contain it")])
def test_what_cannot_be_recorded_is_not_stored(launcher, line, reason):
    launcher.write("k.hip", line + "\n")
    ends = launcher.check(CLANG, *HIP, "k.hip")
    assert [end.startswith(reason) for end in ends] == [True, True], ends


@pytest.mark.parametrize("before", ["", "LD_PRELOAD= cat hidden >copy; rm copy"])
def test_a_script_that_becomes_the_compiler_is_not_stored(launcher, before):
    """A process that is not preloaded makes no notes."""
    launcher.write("hidden", "")
    script = launcher.directory / "clang"
    launcher.write("clang", f'#!/bin/sh\n{before}\nexec {CLANG} "$@"\n')
    script.chmod(0o755)
    wait_until("the clock to pass the file's time", lambda: is_old(script))
    assert launcher.check(script, *HIP, "k.hip") == [
        "it starts a process, whose files are not seen"] * 2


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_a_program_that_becomes_the_compiler_is_not_stored(launcher, kind):
    """The wrapper makes no notes, so a later wrapper might start another compiler unseen."""
    wrapper = HERE / "compilers" / kind / "clang"
    assert launcher.check(wrapper, *HIP, "k.hip", FAKE_CC_REAL=str(CLANG)) == [WRAPPED] * 2


def test_a_library_that_the_compiler_loads_late_counts(launcher):
    """Some compilers load a plugin when they have read the source."""
    library = launcher.directory / "number.so"
    launcher.write("k.hip", f"#load {library}\nint k;\n")
    for number in "1", "2":
        shutil.copy(HERE / f"number_{number}.so", library)
        wait_until("the clock to pass the file's time", lambda: is_old(library))
        assert launcher.check(CLANG, *HIP, "k.hip") == [STORED, ANSWERED]


def test_a_compile_that_closes_a_library_again_is_not_stored(launcher):
    """When the process ends, nobody knows which library it was."""
    launcher.write("k.hip", f"#unload {HERE / 'number_1.so'}\nint k;\n")
    assert launcher.check(CLANG, *HIP, "k.hip") == [LOST] * 2


def test_a_temporary_file_does_not_matter(launcher):
    launcher.write("k.hip", "#temporary scratch\nint k;\n")
    assert launcher.check(CLANG, *HIP, "k.hip") == [STORED, ANSWERED]


def test_an_empty_directory_does_not_matter(launcher):
    """clang 14 leaves its directory of temporary files behind."""
    left = launcher.directory / "left"
    launcher.write("k.hip", f"#directory {left}\nint k;\n")
    launcher.run(KILN_CC, CLANG, *HIP, "k.hip")
    assert launcher.end == STORED
    left.rmdir()
    launcher.run(KILN_CC, CLANG, *HIP, "k.hip")
    assert (launcher.end, left.exists()) == (ANSWERED, False)


def test_a_directory_that_has_a_file_is_not_stored(launcher):
    launcher.write("k.hip", "#directory left\n#other left/unseen\nint k;\n")
    launcher.run(KILN_CC, CLANG, *HIP, "k.hip")
    assert launcher.end == "it writes a file"


def test_kiln_rtc_off_starts_the_compiler_unchanged(launcher):
    assert launcher.check(CLANG, *HIP, "k.hip", KILN_RTC="off") == ["KILN_RTC=off"] * 2


def test_the_names_of_ptxas_files_do_not_matter(launcher):
    """Triton gives each file a random name."""
    for name, end in ("a1b2", STORED), ("c3d4", ANSWERED):
        launcher.write(f"{name}.ptx", "code\n")
        launcher.run(KILN_PTXAS, "-lineinfo", "-v", "--gpu-name=sm_90a", f"{name}.ptx",
                     output=f"{name}.ptx.o")
        assert launcher.end == end
        assert b"code" in (launcher.directory / f"{name}.ptx.o").read_bytes()
    assert launcher.runs() == 1


def test_kiln_ptxas_finds_ptxas_in_path(launcher):
    launcher.write("k.ptx", "code\n")
    path = f"{KILN_PTXAS.parent}:{PTXAS.parent}"
    launcher.run(KILN_PTXAS, "-arch=sm_90", "k.ptx", KILN_PTXAS="", PATH=path)
    assert launcher.runs() == 1


def test_help_and_a_missing_compiler(launcher):
    assert "Usage: kiln-cc COMPILER" in launcher.start(KILN_CC, "--help")[0]
    assert "there is no program 'none'" in launcher.start(KILN_CC, "none", status=127)[1]
    said = launcher.start(KILN_PTXAS, "k.ptx", status=127, KILN_PTXAS="", PATH="/nonexistent")[1]
    assert "KILN_PTXAS" in said


def test_kilnctl_explains_why_a_compiler_was_started_unchanged(launcher):
    commands = [[KILN_CC, CLANG, *HIP, "k.hip", "-o", "k.o"],
                [KILN_CC, CLANG, *HIP, "k.hip", "-o", "k.o"],
                [KILN_CC, CLANG, *HIP, "-nonsense", "k.hip", "-o", "k.o"],
                [KILN_CC, "/bin/true"]]
    script = "\n".join(" ".join(map(str, command)) for command in commands)
    said = launcher.start(BUILD / "bin/kilnctl", "run", "--explain", "--json", "--", "sh", "-ec",
                          script, KILN_RTC_DEBUG="")[1]
    report = json.loads(said.splitlines()[-1])
    assert {name: report[name] for name in ("compiles", "answered", "stored")} == {
        "compiles": 4, "answered": 1, "stored": 1}
    assert {reason["reason"]: reason["count"] for reason in report["reasons"]} == {
        UNKNOWN: 1, "kiln-cc does not know the compiler": 1}
    assert report["libraries"] == [{"compiler": "clang", "path": str(CLANG)},
                                   {"compiler": "true", "path": "/bin/true"}]


PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b64 %r; ld.param.u64 %r, [p]; st.global.u32 [%r], 1; ret; }
"""


def variables_of(launcher, *command):
    """Returns the environment variables that a compiler reads."""
    log = launcher.directory / "variables"
    launcher.start(*command, LD_PRELOAD=str(HERE / "variables.so"), VARIABLES_LOG=str(log))
    return {*log.read_text().split()} - NO_EFFECT


def check_variables(launcher, variables):
    """Checks that a compile with such a variable is another one."""
    assert variables
    launcher.write("k.cl", "int k;\n")
    assert launcher.check(CLANG, "-c", "k.cl") == [STORED, ANSWERED]
    for name in variables - {"CCC_OVERRIDE_OPTIONS"}:
        assert (name, launcher.check(CLANG, "-c", "k.cl", **{name: "1"})) == (
            name, [STORED, ANSWERED])


def test_the_devices_that_a_process_sees_do_not_matter(launcher):
    launcher.write("k.cl", "int k;\n")
    assert launcher.check(CLANG, "-c", "k.cl", CUDA_VISIBLE_DEVICES="0") == [STORED, ANSWERED]
    assert launcher.check(CLANG, "-c", "k.cl", CUDA_VISIBLE_DEVICES="1") == [ANSWERED, ANSWERED]


@pytest.mark.skipif(not REAL_PTXAS.exists(), reason=f"{REAL_PTXAS} is not here")
def test_the_variables_that_ptxas_reads(launcher):
    launcher.write("a.ptx", PTX)
    check_variables(launcher, variables_of(launcher, REAL_PTXAS, "-arch=sm_90", "a.ptx", "-o",
                                           "a.o"))


@pytest.mark.skipif(not REAL_CLANG, reason="clang-19 is not here")
def test_the_variables_that_clang_reads(launcher):
    check_variables(launcher, variables_of(launcher, REAL_CLANG, *REAL_HIP, "-c", "k.hip", "-o",
                                           "k.o"))


def test_the_variables_that_clang_offload_bundler_reads(launcher):
    """clang starts it to bundle the code of a GPU, and it may compress the bundle."""
    check_variables(launcher, {"OFFLOAD_BUNDLER_COMPRESS", "OFFLOAD_BUNDLER_COMPRESSION_LEVEL",
                               "OFFLOAD_BUNDLER_IGNORE_ENV_VAR", "OFFLOAD_BUNDLER_VERBOSE",
                               "COMPRESSED_BUNDLE_FORMAT_VERSION"})


@pytest.mark.skipif(not REAL_PTXAS.exists(), reason=f"{REAL_PTXAS} is not here")
def test_a_warning_of_ptxas_that_names_the_file(launcher):
    launcher.write("a.ptx", PTX.replace("{ .reg", "{ .reg .f64 %d; add.f64 %d, %d, %d; .reg"))
    ends = launcher.check(REAL_PTXAS, "-warn-double-usage", "-arch=sm_90", "a.ptx")
    assert ends == ["the messages name a file"] * 2


@pytest.mark.skipif(not REAL_PTXAS.exists(), reason=f"{REAL_PTXAS} is not here")
def test_ptxas(launcher):
    options = ["-v", "-lineinfo", "--gpu-name=sm_90"]
    for name in "a1b2.ptx", "c3d4.ptx":
        launcher.write(name, PTX)
        ends = launcher.check(REAL_PTXAS, *options, name)
        assert ends == [STORED if name == "a1b2.ptx" else ANSWERED, ANSWERED]
    assert launcher.check(REAL_PTXAS, "-g", "-arch=sm_90", name) == [UNKNOWN] * 2


@pytest.mark.skipif(not REAL_CLANG, reason="clang-19 is not here")
@pytest.mark.parametrize("kind", [["-c"], ["-S", "-emit-llvm"]])
def test_clang(launcher, kind):
    launcher.write("a.h", "#define N 1.0f\n")
    launcher.write("k.hip", '#include "a.h"\n#warning w\nextern "C" __attribute__((global)) '
                   'void k(float *x) { *x = N; }\n')
    compile = [REAL_CLANG, *REAL_HIP, "-O3", *kind, "k.hip"]
    assert launcher.check(*compile) == [STORED, ANSWERED]
    launcher.write("a.h", "#define N 2.0f\n")
    assert launcher.check(*compile) == [STORED, ANSWERED]


@pytest.mark.skipif(not CLANG_14, reason="clang-14 is not here")
def test_a_code_object_of_clang_14(launcher):
    launcher.environment["TMPDIR"] = str(launcher.directory)
    launcher.write("k.hip", 'extern "C" __attribute__((global)) void k(float *x) { *x = 1; }\n')
    options = [option.replace("gfx942", "gfx90a") for option in REAL_HIP]
    assert launcher.check(CLANG_14, *options, "-c", "k.hip") == [STORED, ANSWERED]


@pytest.mark.skipif(not REAL_CLANG, reason="clang-19 is not here")
def test_the_options_that_cmake_gives(launcher):
    launcher.write("k.hip", "#warning w\n__attribute__((device)) float n = N;\n")
    options = ["-DN=1", "-I/usr/include", "-isystem", "/opt/include", "-O3", "-DNDEBUG",
               "-std=gnu++17", "-fPIC", "-fcolor-diagnostics", "-MD", "-MT", "dir/k.o", "-MF",
               "k.o.d"]
    ends = launcher.check(REAL_CLANG, *options, *REAL_HIP, "-c", "k.hip")
    assert ends == [STORED, ANSWERED]
    printed = launcher.run(KILN_CC, REAL_CLANG, *options, *REAL_HIP, "-c", "k.hip")[2]
    assert "\x1b[" in printed[1]  # in colours


@pytest.mark.skipif(not REAL_CLANG, reason="clang-19 is not here")
def test_the_dependency_file_of_clang(launcher):
    launcher.write("a.h", "#define N 1.0f\n")
    launcher.write("k.hip", '#include "a.h"\n__attribute__((device)) float n = N;\n')
    compile = [KILN_CC, REAL_CLANG, *REAL_HIP, "-MD", "-c", "k.hip", "-o", "k.o"]
    made = []
    for program in compile[1:], compile, compile:
        (launcher.directory / "k.d").unlink(missing_ok=True)
        launcher.start(*program)
        made.append((launcher.directory / "k.d").read_text())
    assert (launcher.end, made) == (ANSWERED, ["k.o: k.hip a.h\n"] * 3)


@pytest.mark.skipif(not REAL_CLANG, reason="clang-19 is not here")
def test_a_link_in_the_path_of_the_input(launcher):
    """clang makes a symbol's name from the path without links."""
    launcher.write("first/k.hip", "static __attribute__((device)) int x;\n")
    launcher.write("second/k.hip", "static __attribute__((device)) int x;\n")
    link = launcher.directory / "link"
    for target in "first", "second":
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        assert launcher.check(REAL_CLANG, *REAL_HIP, "-c", "link/k.hip") == [STORED, ANSWERED]
