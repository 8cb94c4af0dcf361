/* SPDX-License-Identifier: MIT */
#define main launch_main
int launch_main(int argc, char **argv);
#include "daemon/programs/kiln_launch.c"
#undef main

#include "tests/support/failing_calls.h"
#include "tests/support/test.h"
#include "tests/unit/daemon/program_run.h"

#include <sys/syscall.h>

static struct {
    const char *script; /* commands that the launched shell runs */
    int pid;            /* LISTEN_PID; 0 means the launcher itself */
    const char *count;  /* LISTEN_FDS */
    enum kiln_code received;
    int directory; /* the program starts in this directory */
    bool hangs_up;
    bool no_pid_files; /* the system has no pidfds */
    /* the launcher ends before its child calls prctl(PR_SET_PDEATHSIG) */
    bool is_left_alone;
    bool is_supervisor;
    const char *failing;
    unsigned nth;
    int error;
} scene;

WRAP(enum kiln_code, launch_receive_request, int control, struct launch_received *ret_request,
     struct kiln_err *err)
{
    static char shell[] = "sh", flag[] = "-c", script[200];
    snprintf(script, sizeof(script), "%s", scene.script);
    ret_request->arguments[0] = shell;
    ret_request->arguments[1] = flag;
    ret_request->arguments[2] = script;
    ret_request->fd_3 = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
    ret_request->directory = scene.directory;
    if (scene.hangs_up)
        shutdown(control, SHUT_RDWR);
    if (scene.failing)
        fail_call(scene.failing, scene.nth, scene.error);
    return scene.received == KILN_INVALID ? kiln_fail(err, scene.received, "an invalid request")
                                          : scene.received;
}

WRAP(void, launch_send_report, int control, const struct launch_report *report)
{
    (void)control;
    if (report->kind == LAUNCH_STARTED)
        printf("started as user %u\n", report->uid);
    else
        printf("ended with %d by signal %d\n", report->status, report->signal_);
    fflush(stdout);
}

WRAP(long, syscall, long number, ...)
{
    va_list more;
    va_start(more, number);
    pid_t pid = va_arg(more, pid_t);
    unsigned flags = va_arg(more, unsigned);
    va_end(more);
    assert_int_equal(number, SYS_pidfd_open);
    errno = EMFILE;
    return scene.no_pid_files ? -1 : __real_syscall(number, pid, flags);
}

WRAP(pid_t, getppid, void) { return scene.is_left_alone ? 1 : __real_getppid(); }

static void prepare_child(void)
{
    char pid[32];
    snprintf(pid, sizeof(pid), "%d", scene.pid ? scene.pid : (int)getpid());
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", scene.count, 1);
    setenv("LISTEN_FDNAMES", "connection", 1);
    if (!scene.script)
        unsetenv("LISTEN_FDS");
    if (scene.is_supervisor && scene.hangs_up)
        shutdown(GIVEN_FD, SHUT_RDWR);
    if (scene.failing && (scene.is_supervisor || strcmp(scene.failing, "fcntl") == 0))
        fail_call(scene.failing, scene.nth, scene.error);
}

static struct program_end run_with(const char *const *arguments)
{
    const struct program_steps steps = { .run = launch_main,
                                         .fd_3 = FD_3_SOCKET,
                                         .before = prepare_child };
    return program_run(&steps, arguments);
}

#define RUN(...) run_with((const char *const[]){ "kiln-launch", __VA_ARGS__, NULL })

/* Avoids descriptor 3, which is the connection. */
static int open_usr(void)
{
    KILN_AUTO(fd) int fd = open("/usr", O_PATH | O_CLOEXEC);
    return fcntl(fd, F_DUPFD_CLOEXEC, 50);
}

SET_UP_STATIC(set_up)
{
    memset(&scene, 0, sizeof(scene));
    scene.script = "exit 3";
    scene.count = "1";
    scene.directory = -1;
    scene.error = EMFILE;
    scene.nth = 1;
}

FIXTURE(launch, set_up, NULL);

TEST(launch, kiln_launch_runs_only_with_a_passed_connection)
{
    struct program_end end = RUN("--help");
    assert_int_equal(end.status, 0);
    assert_says(end.text, "usage:");
    end = RUN("--version");
    assert_string_equal(end.text, "kiln-launch " KILN_VERSION "\n");
    assert_int_equal(RUN("relative").status, EXIT_USAGE);
    assert_int_equal(RUN("/bin/sh", "more").status, EXIT_USAGE);
    scene.count = "2";
    end = RUN("/bin/sh");
    assert_int_equal(end.status, EXIT_USAGE);
    assert_says(end.text, "LISTEN_FDS");
    scene.count = "1";
    scene.pid = 1;
    assert_int_equal(RUN("/bin/sh").status, EXIT_USAGE);
    scene.script = NULL;
    assert_int_equal(RUN("/bin/sh").status, EXIT_USAGE);
}

TEST(launch, a_launched_program_runs_and_its_end_is_reported)
{
    char started[64];
    snprintf(started, sizeof(started), "started as user %u\n", (unsigned)getuid());
    scene.script = "echo here:$LISTEN_FDS >&3; exit 3";
    struct program_end end = RUN("/bin/sh");
    assert_int_equal(end.status, 0);
    assert_says(end.text, started);
    assert_says(end.text, "here:\n");
    assert_says(end.text, "ended with 3 by signal 0\n");
    scene.script = "kill -TERM $$";
    assert_says(RUN("/bin/sh").text, "ended with 0 by signal 15\n");
    scene.script = "pwd >&3";
    scene.directory = open_usr();
    assert_says(RUN("/bin/sh").text, "/usr\n");
    close(scene.directory);
}

TEST(launch, a_launched_program_ends_with_kilnd)
{
    scene.script = "while :; do sleep 1000; done";
    scene.hangs_up = true;
    struct program_end end = RUN("/bin/sh");
    assert_int_equal(end.status, 0);
    assert_says(end.text, "ended with 0 by signal 9\n");
    scene.hangs_up = false;
    /* If poll fails, kiln-launch cannot notice kilnd's end, and kills the program. */
    scene.failing = "poll";
    assert_says(RUN("/bin/sh").text, "ended with 0 by signal 9\n");
    scene.script = "exit 3";
    scene.error = EINTR;
    assert_says(RUN("/bin/sh").text, "ended with 3 by signal 0\n");
}

TEST(launch, a_request_that_cannot_be_received_starts_nothing)
{
    scene.received = KILN_NOT_FOUND;
    struct program_end end = RUN("/bin/sh");
    assert_int_equal(end.status, 0);
    assert_string_equal(end.text, "");
    scene.received = KILN_INVALID;
    end = RUN("/bin/sh");
    assert_int_equal(end.status, EXIT_SURROUNDINGS);
    assert_says(end.text, "request");
    scene.failing = "fcntl";
    for (scene.nth = 1; scene.nth <= 3; scene.nth++) {
        end = RUN("/bin/sh");
        assert_int_equal(end.status, EXIT_SURROUNDINGS);
        assert_says(end.text, "connection");
    }
}

TEST(launch, a_supervisor_that_cannot_watch_its_starter_ends)
{
    scene.is_supervisor = true;
    scene.failing = "poll";
    assert_int_equal(RUN("--keep").status, 0);
    scene.failing = "getsockopt";
    scene.hangs_up = true;
    /* kilnd has ended, and another process may have its pid by now */
    static const int gone[] = { ESRCH, EINVAL };
    for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++) {
        scene.error = gone[i];
        assert_int_equal(RUN("--keep").status, EXIT_SURROUNDINGS);
    }
    /* Linux is too old for pidfds of peers, so kiln-launch uses the pid */
    scene.error = ENOPROTOOPT;
    assert_int_equal(RUN("--keep").status, 0);
    assert_int_equal(RUN("--keep", "/bin/sh").status, EXIT_USAGE);
}

TEST(launch, a_program_that_cannot_be_started_is_reported)
{
    struct program_end end = RUN("/nonexistent/program");
    assert_says(end.text, "'/nonexistent/program'");
    assert_says(end.text, "ended with 127 by signal 0\n");
    scene.failing = "fork";
    end = RUN("/bin/sh");
    assert_int_equal(end.status, EXIT_SURROUNDINGS);
    assert_says(end.text, "start '/bin/sh'");
    scene.directory = open_usr();
    static const char *const calls[] = { "open", "fchdir", "dup2", "dup2", "dup2" };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        scene.failing = calls[i];
        scene.nth = i > 2 ? (unsigned)i - 1 : 1;
        end = RUN("/bin/sh");
        assert_says(end.text, "up '/bin/sh'");
        assert_says(end.text, "ended with 4 by signal 0\n");
    }
    close(scene.directory);
}

TEST(launch, a_launched_process_whose_launcher_has_ended_runs_nothing)
{
    scene.is_left_alone = true; /* the script would exit with 3 */
    assert_says(RUN("/bin/sh").text, "ended with 4 by signal 0\n");
}

TEST(launch, a_program_without_a_pidfd_is_polled)
{
    scene.no_pid_files = true;
    assert_says(RUN("/bin/sh").text, "ended with 3 by signal 0\n");
    scene.script = "while :; do sleep 1000; done";
    scene.hangs_up = true;
    struct program_end end = RUN("/bin/sh");
    assert_int_equal(end.status, 0);
    assert_says(end.text, "ended with 0 by signal 9\n");
}
