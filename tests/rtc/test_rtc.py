# SPDX-License-Identifier: MIT
"""Tests libkiln-rtc in programs that call a run-time compiler."""
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys

import pytest

from conftest import BUILD, WAIT_MAX_S, wait_until
from jobs import FAKE, HERE, PRELOAD, Job, daemon  # noqa: F401  (a fixture)

NVRTC = pathlib.Path("/usr/local/cuda/lib64/libnvrtc.so.13")
SOURCE = "void k(); // 1"


@pytest.fixture
def job(daemon, tmp_path):
    daemon.kilnctl("clear", "--own", "--yes")
    return Job(daemon, tmp_path)


# ---- ways to call the compiler ----

COMPILE_EACH = f"""
import ctypes, sys
library = ctypes.CDLL({str(FAKE)!r})
for given in sys.argv[1:]:
    source, *options = given.split("|")
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), None, 0, None, None)
    texts = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    assert library.nvrtcCompileProgram(program, len(options), texts) == 0
"""


@pytest.mark.parametrize("option", ["--restrict", "-restrict", "--optimization-info=inline",
                                    "-opt-info=inline"])
def test_a_result_with_an_option_of_an_earlier_program_is_not_stored(job, option):
    """NVRTC keeps such an option for all later programs of the process."""
    def compiles(*programs):
        subprocess.run([sys.executable, "-c", COMPILE_EACH, *programs], env=job.environment,
                       timeout=WAIT_MAX_S, check=True)
        return job.compiles()
    first, second, third = f"void a();|{option}", f"void b();|{option}", "void c();"
    assert compiles(first, second, third) == 3
    assert compiles(third) == 1
    assert compiles(first, second, third) == 0


@pytest.mark.parametrize("program", ["kiln_rtc_job_lazy", "kiln_rtc_job_now", "kiln_rtc_job"])
def test_a_second_process_does_not_compile(job, program):
    assert job.check(SOURCE, program=program) == (1, 0)
    assert "answered by kilnd" in job.said


def test_the_library_may_be_opened_by_its_soname(job):
    assert job.check(SOURCE, library="libnvrtc.so.99") == (1, 0)


def test_the_library_may_be_opened_with_deepbind(job):
    assert job.check("--deepbind", SOURCE) == (1, 0)


def test_python_finds_the_compiler_by_ctypes(job):
    calls = """
print(library.nvrtcCompileProgram(program, 0, None))
print(library.nvrtcGetCUBINSize(program, ctypes.byref(size)))"""
    for compiles in 1, 0:
        assert run_python(job, calls).split() == ["0", "0"]
        assert job.compiles() == compiles


def test_symbols_of_a_library_that_is_not_loaded_are_not_found(job):
    script = "import ctypes; print(hasattr(ctypes.CDLL(None), 'nvrtcCreateProgram'))"
    done = subprocess.run([sys.executable, "-c", script], env=job.environment, text=True,
                          capture_output=True, timeout=WAIT_MAX_S, check=True)
    assert done.stdout.strip() == "False"


def test_a_forked_child_compiles_while_threads_of_its_parent_create_programs(job):
    assert job.check(SOURCE) == (1, 0)
    job.run("--forks", 100, SOURCE)


def test_a_fork_does_not_wait_for_a_thread_that_opens_the_connection(job):
    preload = f"{HERE / 'libkiln_fork_handlers.so'} {PRELOAD}"
    job.run(SOURCE, environment={"LD_PRELOAD": preload})
    assert "compiled here and stored" in job.said


def test_a_trace_says_who_compiled_a_result_and_who_found_it(job, tmp_path):
    cache = tmp_path / "cache"
    for _ in range(2):
        job.run(SOURCE, environment={"KILN_TRACE": "net", "XDG_CACHE_HOME": str(cache)})
    texts = [file.read_text() for file in sorted((cache / "kiln/traces/net").iterdir())]
    compiles = [line.split() for text in texts for line in text.splitlines()
                if line.startswith("compile ")]
    assert len(texts) == len(compiles) == 2
    assert {"own"} < {c[3] for c in compiles} < {"own", "hot", "disk"}
    assert compiles[0][6] == compiles[1][6]
    assert SOURCE not in "".join(texts) and "libkiln-rtc" in texts[0]


def test_a_trace_that_cannot_be_written_changes_nothing(job, tmp_path):
    (tmp_path / "kiln").write_text("not a directory")
    environment = {"KILN_TRACE": "net", "XDG_CACHE_HOME": str(tmp_path)}
    assert job.check(SOURCE, environment=environment) == (1, 0)


# ---- what a result depends on ----

@pytest.mark.parametrize("arguments", [
    ["--option", "-DN=1"], ["--option", "-arch=sm_90"], ["--expression", "f<int>"],
    ["--header", "a.h=int a;"], ["--option", "--std=c++17"]])
def test_every_input_is_part_of_the_key(job, arguments):
    assert job.check(SOURCE) == (1, 0)
    assert job.check(*arguments, SOURCE) == (1, 0)


def test_all_outputs_are_answered(job):
    assert job.check("--option", "-dlto", "--expression", "f", "#warning w\\n" + SOURCE) == (1, 0)
    assert "lowered 0 _Zf" in job.run("--expression", "f", SOURCE)


def test_a_lowered_name_stays_valid_when_the_program_compiles_after_all(job):
    """libkiln maps a result of this size, so memory that it has released cannot be read."""
    source = SOURCE + "x" * 50000
    assert job.check("--expression", "f", "--missing", "g", source) == (1, 1)
    assert "the stored result does not have what the program asks for" in job.said


def test_a_name_that_does_not_reach_the_output_does_not_matter(job):
    job.run("--name", "/tmp/a1b2c3d4/kernel.cu", SOURCE)
    job.run("--name", "/tmp/e5f6a7b8/another.cu", SOURCE)
    assert job.compiles() == 1


@pytest.mark.parametrize("source", ["const char *f = __FILE__;", "static int s;",
                                    "#warning w\\nint i;"])
def test_a_name_that_reaches_the_output_matters(job, source):
    for name in "first_name.cu", "second_name.cu":
        assert job.check("--name", name, source) == (1, 0)


def test_of_a_name_only_the_last_part_reaches_the_names_of_static_variables(job):
    assert job.check("--name", "/tmp/a1b2/k.cu", "static int s;") == (1, 0)
    assert job.check("--name", "/tmp/c3d4/k.cu", "static int s;") == (0, 0)
    assert job.check("--name", "/tmp/c3d4/l.cu", "static int s;") == (1, 0)


def test_a_name_in_the_log_is_that_of_the_program(job):
    warning = "#warning w\\nint i;"
    for name, compiles in (("/tmp/a1b2/k.cu", 1), ("/tmp/c3d4/another.cu", 0), ("none.cu", 0)):
        assert job.check("--name", name, warning) == (compiles, 0)
        assert f"{name}: warning" in job.run("--name", name, warning)
        job.compiles()


def test_a_name_that_is_also_in_the_source_matters(job):
    for name in "/tmp/a1b2/k.cu", "/tmp/c3d4/k.cu":
        assert job.check("--name", name, "#warning w\\n// /tmp/a1b2/k.cu") == (1, 0)


def test_a_program_without_a_name_does_not_answer_one_with_a_name(job):
    assert job.check("static int s;") == (1, 0)
    assert job.check("--name", "a_name.cu", "static int s;") == (1, 0)


def test_a_name_matters_if_it_reaches_the_output_through_an_option(job):
    for name in "first_name.cu", "second_name.cu":
        assert job.check("--name", name, "--option", "-lineinfo", SOURCE) == (1, 0)


# ---- what is not answered ----

@pytest.mark.parametrize("option", ["-time=t.txt", "--create-pch=p", "--fdevice-time-trace=t",
                                    "--unheard-of"])
def test_options_with_side_effects_are_forwarded(job, option):
    assert job.check("--option", option, SOURCE) == (1, 1)
    assert "side effects" in job.said


def test_errors_are_the_compilers_own(job):
    assert job.check("#error no") == (1, 1)
    assert "compile 6" in job.run("#error no")
    assert job.check("--option", "-bad", SOURCE) == (1, 1)


@pytest.mark.parametrize("name", ["NVVM_IR_VER_CHK", "NV_NVVM_VERSION", "CAN_FINALIZE_DEBUG"])
def test_variables_that_nvrtc_reads_are_part_of_the_key(job, name):
    for value in "0", "1":
        assert job.check(SOURCE, environment={name: value}) == (1, 0)


def test_the_devices_that_a_process_sees_do_not_matter(job):
    assert job.check(SOURCE, environment={"CUDA_VISIBLE_DEVICES": "0"}) == (1, 0)
    assert job.check(SOURCE, environment={"CUDA_VISIBLE_DEVICES": "1"}) == (0, 0)


@pytest.mark.parametrize("name", ["NVRTC_APPEND_FLAGS", "NVRTC_PREPEND_FLAGS",
                                  "DUMP_KNOBS_TO_FILE"])
def test_options_of_the_environment_are_forwarded(job, name):
    assert job.check(SOURCE, environment={name: "-lineinfo"}) == (1, 1)
    assert "environment variable adds options" in job.said


@pytest.mark.parametrize("source", [
    "const char *t = __TIME__;", "#define C(a, b) a##b\\nconst char *t = C(__TI, ME__);",
    "#define C(a) __##a##__\\nconst char *t = C(DATE);"])
def test_sources_with_the_time_are_forwarded(job, source):
    assert job.check(source) == (1, 1)
    assert "contains the time" in job.said


@pytest.mark.parametrize("environment", [{"KILN_RTC": "off"}, {"KILN_SOCKET": "/nonexistent/sock"}])
def test_without_kiln_the_program_compiles_itself(job, environment):
    assert job.check(SOURCE, environment=environment) == (1, 1)


def test_a_kilnd_that_does_not_answer_is_left_alone(job):
    environment = {"KILN_RTC_PATIENCE": "200"}
    job.run(SOURCE)  # kilnd has the result
    job.compiles()
    job.daemon.process.send_signal(signal.SIGSTOP)
    try:
        said = job.run(SOURCE, "int other;", environment=environment)
    finally:
        job.daemon.process.send_signal(signal.SIGCONT)
    assert said.count("compile 0") == 2
    assert job.compiles() == 2
    assert [job.said.count(reason) for reason in ("kilnd did not answer in time",
                                                  "no kilnd can be reached")] == [1, 1]
    job.run(SOURCE)
    assert job.compiles() == 0


def run_python(job, calls, **environment):
    """Runs |calls| in Python after a program was created."""
    script = job.directory / "compile.py"
    script.write_text(f"""
import ctypes
library = ctypes.CDLL({str(FAKE)!r})
program, size = ctypes.c_void_p(), ctypes.c_size_t()
options = (ctypes.c_char_p * 1)(b"-dlto")
library.nvrtcCreateProgram(ctypes.byref(program), b"void k();", None, 0, None, None)
{calls}""")
    done = subprocess.run([sys.executable, script], env=dict(job.environment, **environment),
                          text=True, capture_output=True, timeout=WAIT_MAX_S, check=True)
    job.said = done.stderr
    return done.stdout


def test_a_result_of_more_than_64_mib_is_not_stored(job):
    for _ in range(2):
        run_python(job, "library.nvrtcCompileProgram(program, 0, None)", FAKE_NVRTC_MIB="64")
        assert "larger than 64 MiB" in job.said
        assert job.compiles() == 1


def test_an_output_that_libkiln_rtc_does_not_store_is_compiled(job):
    """CUDA 12 has nvrtcGetNVVM."""
    calls = """
library.nvrtcCompileProgram(program, 1, options)
print(library.nvrtcGetNVVMSize(program, ctypes.byref(size)), size.value)"""
    said = []
    for _ in range(2):
        said.append(run_python(job, calls))
        assert job.compiles() == 1
    assert said[0] == said[1] != "0 0\n"
    assert "the stored result does not have" in job.said


def test_record_stores_and_does_not_answer(job):
    assert job.check(SOURCE, environment={"KILN_RTC": "record"}) == (1, 1)
    job.run(SOURCE)
    assert job.compiles() == 0


# ---- kilnctl run ----

def kilnctl_run(job, *arguments, **options):
    environment = {name: value for name, value in job.environment.items() if name != "LD_PRELOAD"}
    environment.update(KILN_RTC_DEBUG="", **options)
    return subprocess.run([BUILD / "bin/kilnctl", "run", *arguments], env=environment, text=True,
                          capture_output=True, timeout=WAIT_MAX_S, cwd=job.directory)


def test_kilnctl_runs_a_program_with_the_library(job):
    plain = job.run(SOURCE, plain=True)
    job.compiles()
    for expected in (1, 0, 0), (0, 1, 0):
        done = kilnctl_run(job, "--explain", "--", *job.command(SOURCE))
        assert (done.returncode, done.stdout) == (0, plain), done.stderr
        stored, hits, other = expected
        assert (f"1 compiles: {hits} answered by kilnd, {stored} compiled and stored, {other} "
                "compiled without kilnd") in done.stderr
    assert job.compiles() == 1


def test_a_program_fails_under_kilnctl_even_if_the_ends_of_children_are_ignored(job):
    """The kernel then forgets how they ended."""
    done = subprocess.run([BUILD / "bin/kilnctl", "run", "--explain", "--", "false"],
                          env=job.environment, stderr=subprocess.DEVNULL, timeout=WAIT_MAX_S,
                          check=False, preexec_fn=lambda: signal.signal(signal.SIGCHLD,
                                                                        signal.SIG_IGN))
    assert done.returncode == 1


def test_a_signal_for_kilnctl_ends_the_program(job):
    """For example, "timeout" and container runtimes send a signal only to the process they started.
    """
    begun = job.directory / "begun"
    script = f"trap 'echo ended; exit 7' TERM; echo >{begun}; read x"
    with subprocess.Popen([BUILD / "bin/kilnctl", "run", "--explain", "--", "sh", "-c", script],
                          env=job.environment, text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until("the program to start", begun.exists)
        process.terminate()
        out, said = process.communicate(timeout=WAIT_MAX_S)
    assert (process.returncode, out) == (7, "ended\n")
    assert "loaded none of NVRTC" in said


def test_a_signal_for_kilnctl_just_after_it_starts_the_program_ends_both(job):
    environment = {**job.environment, "LD_PRELOAD": str(HERE / "libkiln_signal_at_fork.so")}
    with open(job.directory / "said", "w+", encoding="utf-8") as said:
        done = subprocess.run([BUILD / "bin/kilnctl", "run", "--explain", "--", "sleep", "1000"],
                              env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                              timeout=WAIT_MAX_S, check=False)
        said.seek(0)
        assert "loaded none of NVRTC" in said.read()
    assert done.returncode == 128 + signal.SIGTERM


def test_kilnctl_explains_why_a_compile_was_not_answered(job):
    done = kilnctl_run(job, "--explain", "--", *job.command("--option", "--unheard-of", SOURCE))
    assert "1 without kilnd: an option is unknown or has side effects" in done.stderr


def test_kilnctl_names_the_compilers_that_were_loaded(job):
    done = kilnctl_run(job, "--explain", "--", *job.command(SOURCE))
    assert f"loaded: nvrtc {FAKE}" in done.stderr
    done = kilnctl_run(job, "--explain", "--", *job.command())
    assert f"loaded: nvrtc {FAKE}" in done.stderr
    assert "compiled nothing" in done.stderr


def test_kilnctl_explains_in_json(job):
    for answered in 0, 1:
        done = kilnctl_run(job, "--explain", "--json", "--", *job.command(SOURCE))
        report = json.loads(done.stderr.splitlines()[-1])
        assert (report["compiles"], report["answered"]) == (1, answered)
        assert report["libraries"] == [{"compiler": "nvrtc", "path": str(FAKE)}]
    done = kilnctl_run(job, "--explain", "--json", "--",
                       *job.command("--option", "--unheard-of", SOURCE))
    report = json.loads(done.stderr.splitlines()[-1])
    assert report["reasons"] == [
        {"reason": "an option is unknown or has side effects", "count": 1}]


def test_the_report_of_a_run_has_a_name_of_its_own_and_is_removed(job):
    append = 'echo "$KILN_RTC_REPORT"; echo "hit 3" >>"$KILN_RTC_REPORT"'
    done = kilnctl_run(job, "--explain", "--", "sh", "-c", append, TMPDIR=str(job.directory))
    report = pathlib.Path(done.stdout.strip())
    assert "3 compiles: 3 answered" in done.stderr
    assert report.parent == job.directory
    assert not report.exists()


def test_kilnctl_says_where_no_report_can_be_written(job):
    done = kilnctl_run(job, "--explain", "--", "true", TMPDIR="/nonexistent")
    assert done.returncode == 1
    assert "/nonexistent" in done.stderr


def test_kilnd_counts_compiles_of_programs_apart(job):
    before = json.loads(job.daemon.kilnctl("stats", "--json"))
    job.run(SOURCE)
    job.run(SOURCE)
    now = json.loads(job.daemon.kilnctl("stats", "--json"))
    assert [now[name] - before[name] for name in ("client_compiles", "client_hits", "fetches")] \
        == [1, 1, 0]
    listed = json.loads(job.daemon.kilnctl("kernel", "ls", "--kind", "rtc", "--json"))["kernels"]
    assert [kernel["kind"] for kernel in listed] == ["rtc"]

def test_kilnctl_counts_reasons_for_which_it_has_no_space(job):
    script = "for i in $(seq 100); do echo forwarded 1 reason $i; done >>$KILN_RTC_REPORT"
    done = kilnctl_run(job, "--explain", "--json", "--", "sh", "-c", script)
    report = json.loads(done.stderr.splitlines()[-1])
    counts = {reason["reason"]: reason["count"] for reason in report["reasons"]}
    assert (sum(counts.values()), counts["reason 1"], counts["other reasons"]) == (
        100, 1, 101 - len(counts))


def test_kilnctl_ends_as_the_program_does(job):
    assert kilnctl_run(job, "--", "sh", "-c", "exit 7").returncode == 7
    done = kilnctl_run(job, "--explain", "--", "sh", "-c", "exit 7")
    assert done.returncode == 7
    assert "loaded none of NVRTC, hiprtc and comgr" in done.stderr
    done = kilnctl_run(job, "--", "/nonexistent/program")
    assert done.returncode != 0
    assert "/nonexistent/program" in done.stderr


@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is not installed")
def test_a_program_with_address_sanitizer_needs_an_option(job):
    program = job.directory / "program"
    source = "#include <fcntl.h>\nint main(void) { return open(\"/dev/null\", O_RDONLY) < 0; }"
    subprocess.run(["gcc", "-fsanitize=address", "-x", "c", "-", "-o", program], text=True,
                   input=source, check=True, timeout=WAIT_MAX_S)
    done = kilnctl_run(job, "--", program, ASAN_OPTIONS="detect_leaks=0")
    assert "ASan runtime does not come first" in done.stderr
    options = "detect_leaks=0:verify_asan_link_order=0"
    assert kilnctl_run(job, "--", program, ASAN_OPTIONS=options).returncode == 0


def test_kilnctl_names_the_library_that_is_missing(job):
    done = kilnctl_run(job, "--", "true", KILN_RTC_LIBRARY="/nonexistent/library.so")
    assert done.returncode != 0
    assert "KILN_RTC_LIBRARY" in done.stderr


@pytest.mark.parametrize("name", ["a b", "a:b"])
def test_kilnctl_refuses_a_library_that_ld_preload_cannot_name(job, name):
    library = job.directory / name / "libkiln-rtc.so.0"
    library.parent.mkdir()
    library.symlink_to(PRELOAD)
    done = kilnctl_run(job, "--", "true", KILN_RTC_LIBRARY=str(library))
    assert done.returncode != 0 and name in done.stderr


def kilnctl_env(job, *arguments, **options):
    environment = {name: value for name, value in job.environment.items() if name != "LD_PRELOAD"}
    return subprocess.run([BUILD / "bin/kilnctl", "env", *arguments], text=True, check=True,
                          env={**environment, **options}, capture_output=True,
                          timeout=WAIT_MAX_S).stdout


@pytest.mark.parametrize("name", ["plain", "b'c"])
def test_a_shell_takes_the_variables_of_kilnctl_env(job, name):
    library = job.directory / name / "libkiln-rtc.so.0"
    library.parent.mkdir()
    library.symlink_to(PRELOAD)
    line = kilnctl_env(job, KILN_RTC_LIBRARY=str(library))
    assert ("'" in line) == (name != "plain")
    done = subprocess.run(["sh", "-c", 'eval "$1"; printf %s "$LD_PRELOAD"',
                           "sh", line], text=True, stdout=subprocess.PIPE, timeout=WAIT_MAX_S,
                          check=True)
    assert done.stdout == str(library)


def test_kilnctl_env_keeps_what_is_preloaded_and_adds_itself_once(job):
    assert kilnctl_env(job, LD_PRELOAD="libm.so.6").endswith(":libm.so.6\n")
    line = kilnctl_env(job, LD_PRELOAD=str(PRELOAD), KILN_RTC_LIBRARY=str(PRELOAD))
    assert line == f"export LD_PRELOAD={PRELOAD}\n"
    assert json.loads(kilnctl_env(job, "--json", KILN_RTC_LIBRARY=str(PRELOAD))) == {
        "LD_PRELOAD": str(PRELOAD)}


def requests(job):
    """Returns how many requests that look up or store compiles kilnd has answered."""
    lines = job.daemon.kilnctl("metrics").splitlines()
    return sum(int(line.split()[-1]) for line in lines
               if line.startswith("kiln_requests_total{") and 'op="compile_' in line)


@pytest.mark.parametrize("arguments", [[], ["--option", "-I."]])
def test_a_stored_result_takes_two_requests(job, arguments):
    """The first request asks for the list of files, and the second for the result."""
    assert job.check(*arguments, SOURCE) == (1, 0)
    before = requests(job)
    job.run(*arguments, SOURCE)
    assert requests(job) == before + 2


# ---- many processes ----

def test_eight_processes_compile_each_program_once(job):
    sources = [f"void k(); // number {i}" for i in range(50)]
    job.run("--processes", 8, *sources, environment={"FAKE_NVRTC_MS": "5"})
    assert job.compiles() == len(sources)


def waits(job):
    return json.loads(job.daemon.kilnctl("stats", "--json"))["client_compile_waits"]


def test_nobody_waits_for_a_result_that_cannot_be_stored(job):
    arguments = ["--expression", "unreadable", SOURCE]
    with subprocess.Popen(job.command("--hold", *arguments), env=job.environment, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as first:
        assert select.select([first.stdout], [], [], WAIT_MAX_S)[0], \
            f"waited {WAIT_MAX_S} s for the first compile"
        assert "compile 0" in first.stdout.readline()
        before = waits(job)
        assert "compile 0" in job.run(*arguments)
        assert waits(job) == before
        first.communicate("\n", timeout=WAIT_MAX_S)
    assert job.compiles() == 2


def test_a_process_waits_no_longer_than_it_may(job):
    """The second process does not wait for its second compile, either."""
    others = [SOURCE + "2", SOURCE + "3"]
    with subprocess.Popen(job.command(others[0]), env=dict(job.environment, FAKE_NVRTC_MS="60000"),
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        wait_until("the first compile", lambda: job.log.exists())
        before = waits(job)
        job.run(*others, others[0], environment={"KILN_RTC_WAIT": "1"})
        assert waits(job) == before + 1
        assert job.said.count("another process still compiles it") == 2
        assert job.said.count("compiled here and stored") == 1
        first.kill()


def test_a_killed_process_passes_its_compile_on(job):
    environment = dict(job.environment, FAKE_NVRTC_MS="60000")
    before = waits(job)
    with subprocess.Popen(job.command(SOURCE), env=environment, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as first:
        wait_until("the first compile", lambda: job.log.exists())
        with subprocess.Popen(job.command(SOURCE), env=job.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as second:
            wait_until("the second process to wait", lambda: waits(job) > before)
            first.send_signal(signal.SIGKILL)
            output, _ = second.communicate(timeout=WAIT_MAX_S)
    assert "compile 0" in output
    assert job.compiles() == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as two users")
def test_another_user_is_never_answered(job):
    os.chmod(job.daemon.directory, 0o755)
    os.chmod(job.daemon.socket, 0o666)
    job.run(SOURCE)
    job.compiles()
    done = subprocess.run(job.command(SOURCE), env=dict(job.environment, FAKE_NVRTC_LOG=""),
                          user=12345, group=12345, extra_groups=[], text=True, capture_output=True,
                          timeout=WAIT_MAX_S, check=True)
    assert "answered by kilnd" not in done.stderr


# ---- hiprtc ----

FAKE_HIP = HERE / "libamdhip64.so.99"
HIP = pathlib.Path(os.environ.get("KILN_RTC_HIPRTC", "/usr/lib/x86_64-linux-gnu/libamdhip64.so.5"))


class HipJob(Job):
    """Runs tests/rtc/hip_job.py."""

    def command(self, *arguments, library=FAKE_HIP):
        return [sys.executable, str(pathlib.Path(__file__).with_name("hip_job.py")), str(library),
                *map(str, arguments)]


@pytest.fixture
def hip_job(daemon, tmp_path):
    daemon.kilnctl("clear", "--own", "--yes")
    return HipJob(daemon, tmp_path)


def test_hiprtc_is_answered(hip_job):
    """A compiler that writes temporary files must be answered, too."""
    assert hip_job.check(SOURCE, "--offload-arch=gfx906") == (1, 0)
    assert hip_job.check(SOURCE, "--offload-arch=gfx90a") == (1, 0)


def test_hiprtc_compiles_for_the_current_device(hip_job):
    for device in "gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack+":
        assert hip_job.check(SOURCE, environment={"FAKE_HIP_DEVICE": device}) == (1, 0)


def test_hiprtc_without_a_device_is_forwarded(hip_job):
    assert hip_job.check(SOURCE) == (1, 1)
    assert "current device's is not known" in hip_job.said


def test_hiprtc_in_another_directory_is_answered(hip_job):
    assert hip_job.check(SOURCE, "--offload-arch=gfx906") == (1, 0)
    (hip_job.directory / "other").mkdir()
    hip_job.run(SOURCE, "--offload-arch=gfx906", cwd=hip_job.directory / "other")
    assert hip_job.compiles() == 0


def test_hiprtc_that_finds_a_file_in_the_directory_is_not_answered(hip_job):
    assert hip_job.check(SOURCE, "--offload-arch=gfx906") == (1, 0)
    (hip_job.directory / "lib/clang").mkdir(parents=True)
    assert hip_job.check(SOURCE, "--offload-arch=gfx906") == (1, 0)


def test_hiprtc_with_miopens_warnings_is_answered(hip_job):
    assert hip_job.check(SOURCE, "--offload-arch=gfx906", "-Wno-newline-eof",
                         "-Wno-gnu-line-marker") == (1, 0)


@pytest.mark.parametrize("given", [["-Wl,-q"], ["-Wp,-MD,file"], ["-Wa,-o,file"],
                                   ["-mllvm", "-stats"], ["--mllvm", "-stats"], ["-mllvm=-stats"]])
def test_options_that_clang_passes_on_are_forwarded(hip_job, given):
    assert hip_job.check(SOURCE, "--offload-arch=gfx906", *given) == (1, 1)
    assert "side effects" in hip_job.said


@pytest.mark.parametrize("given", [["-mllvm", "-amdgpu-prelink"], ["-mllvm=-amdgpu-prelink=1"]])
def test_an_option_of_llvm_is_known_with_its_value(hip_job, given):
    assert hip_job.check(SOURCE, "--offload-arch=gfx906", *given) == (1, 0)


@pytest.mark.parametrize("name", ["CPATH", "CPLUS_INCLUDE_PATH", "HIP_DEVICE_LIB_PATH",
                                  "LLVM_PATH"])
def test_variables_that_clang_reads_are_part_of_the_key(hip_job, name):
    for value in "/nonexistent/first", "/nonexistent/second":
        assert hip_job.check(SOURCE, "--offload-arch=gfx906",
                             environment={name: value}) == (1, 0)


@pytest.mark.parametrize("name", ["AMD_COMGR_SAVE_TEMPS", "AMD_COMGR_SAVE_LLVM_TEMPS",
                                  "AMD_COMGR_DRIVER_OPTIONS_APPEND", "AMD_COMGR_REDIRECT_LOGS",
                                  "AMD_COMGR_TIME_STATISTICS", "AMD_COMGR_EMIT_VERBOSE_LOGS",
                                  "HIPRTC_COMPILE_OPTIONS_APPEND", "HIPRTC_LINK_OPTIONS_APPEND"])
def test_variables_that_let_hiprtc_do_more_are_forwarded(hip_job, name):
    assert hip_job.check(SOURCE, "--offload-arch=gfx906", environment={name: "1"}) == (1, 1)
    assert "environment variable adds options" in hip_job.said


def test_comgrs_own_cache_does_not_matter(hip_job):
    cache = hip_job.directory / "cache"
    cache.mkdir()
    options = {"environment": {"AMD_COMGR_CACHE_DIR": str(cache)}}
    hip_job.run(SOURCE, "--offload-arch=gfx906", **options)  # fills the cache
    assert (cache / "llvmcache-0123").exists()
    assert hip_job.compiles() == 1
    hip_job.run(SOURCE, "--offload-arch=gfx906", **options)
    assert hip_job.compiles() == 0
    shutil.rmtree(cache)
    hip_job.run(SOURCE, "--offload-arch=gfx906", **options)
    assert hip_job.compiles() == 0


@pytest.mark.parametrize("source, reason", [("thread", "on another thread"),
                                            ("process", "starts a process")])
def test_a_compile_whose_files_are_not_all_seen_is_not_stored(hip_job, source, reason):
    assert hip_job.check(source, "--offload-arch=gfx906") == (1, 1)
    assert reason in hip_job.said


@pytest.mark.skipif(not HIP.exists(), reason=f"{HIP} is not here")
@pytest.mark.parametrize("given", [["--offload-arch=gfx906"],
                                   ["--offload-arch=gfx90a", "-O3", "-std=c++17", "-DN=2"]])
def test_real_hiprtc(hip_job, given):
    source = ('template <class T> __global__ void t(T *x) { *x = 1; }\n'
              'extern "C" __global__ void k(float *x) { *x = sinf(x[1]); }')
    # With this variable, the program compiles by itself instead of asking kilnd to compile (see
    # test_shared_hip.py).
    options = {"library": HIP, "environment": {"ROCM_PATH": "/nonexistent"}}
    expected = hip_job.run(source, *given, plain=True, **options)
    assert "compile 0" in expected
    assert hip_job.run(source, *given, **options) == expected
    # libkiln-rtc prints one line for the call of hiprtc, and none for hiprtc's calls of comgr
    assert hip_job.said.count("libkiln-rtc: ") == 1
    assert "compiled here and stored" in hip_job.said
    assert hip_job.run(source, *given, **options) == expected
    assert "answered by kilnd" in hip_job.said


# ---- NVRTC itself ----

@pytest.mark.skipif(not NVRTC.exists(), reason=f"{NVRTC} is not here")
@pytest.mark.parametrize("options", [
    ["-arch=sm_90"], ["-arch=compute_90"], ["-arch=sm_90", "-dlto"], ["-arch=sm_90", "-lineinfo"],
    ["-arch=sm_90", "--std=c++17", "-default-device"]])
def test_nvrtc(job, options):
    source = ('template <class T> __global__ void t(T *x) { *x = 1; }\\n'
              'extern "C" __global__ void k(float *x) { *x = sinf(x[1]); }')
    given = [part for option in options for part in ("--option", option)]
    arguments = [*given, "--name", "k_program.cu", "--expression", "t<float>", source]
    expected = job.run(*arguments, plain=True, library=NVRTC)
    assert job.run(*arguments, library=NVRTC) == expected
    assert job.run(*arguments, library=NVRTC) == expected
    assert "answered by kilnd" in job.said
