/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/preload.h"
#include "cli/kilnctl/python_path.h"
#include "cli/kilnctl/run_report.h"
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct run_options {
    bool explain, torch;
};

static const struct option options[] = {
    { "torch", 't', OPTION_FLAG, offsetof(struct run_options, torch), NULL,
      "let kiln run the convolutions of PyTorch where it is faster: kiln.torch in every Python", 0,
      0 },
    { "explain", 'e', OPTION_FLAG, offsetof(struct run_options, explain), NULL,
      "say at the end which libraries were loaded, what kilnd answered and stored, and why not", 0,
      0 },
};

static int execute(const struct invocation *invocation, struct kiln_error *err)
{
    size_t count = invocation->word_count;
    char **words = calloc(count + 1, sizeof(*words));
    if (!words)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory");
    memcpy(words, invocation->words, count * sizeof(*words));
    execvp(words[0], words);
    free(words);
    return cli_fail_errno(err, errno, "cannot run '%.500s'", invocation->words[0]);
}

static int status_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Creates the file to which processes of the run append their counts.  The file has a name of its
 * own, because a process that outlives kilnctl keeps the name: /proc/PID/fd/N could be a file of
 * another process by then, or in another PID namespace. */
static int create_report(char path[PATH_MAX], int *ret_fd, struct kiln_error *err)
{
    const char *directory = getenv("TMPDIR");
    int size = snprintf(path, PATH_MAX, "%s/kiln-report-XXXXXX",
                        directory && *directory ? directory : "/tmp");
    int fd = size < PATH_MAX ? mkostemp(path, O_CLOEXEC) : -1;
    if (fd < 0)
        return cli_fail_errno(err, size < PATH_MAX ? errno : ENAMETOOLONG,
                              "cannot create a file for the report of the run in '%.500s' (TMPDIR)",
                              directory && *directory ? directory : "/tmp");
    *ret_fd = fd;
    return KILN_E_OK;
}

static volatile sig_atomic_t program; /* 0: it has ended, so another process may get its number */

static void pass_signal(int number)
{
    if (program)
        kill(program, number);
}

/* Delays signals until pass_signals has been called: they would end kilnctl, but not the
 * program. */
static void block_signals(sigset_t *ret_before)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGHUP);
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGQUIT);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, ret_before);
}

/* From now on, passes signals that end a job to the process |child|.  Ignores SIGINT and SIGQUIT,
 * which the terminal also sends to |child|, because the report must still be printed. */
static void pass_signals(pid_t child)
{
    static const int passed[] = { SIGHUP, SIGTERM };
    const struct sigaction pass = { .sa_handler = pass_signal, .sa_flags = SA_RESTART };
    struct sigaction before;
    program = child;
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
        if (sigaction(passed[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(passed[i], &pass, NULL);
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
}

/* Starts the program.  Returns its process, or -1. */
static pid_t start_program(const struct invocation *invocation, const struct sigaction *for_child,
                           struct kiln_error *err)
{
    sigset_t before;
    block_signals(&before);
    pid_t child = fork();
    if (child > 0)
        pass_signals(child);
    if (child == 0)
        sigaction(SIGCHLD, for_child, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (child == 0) {
        int rc = execute(invocation, err);
        output_error(stderr, "kilnctl", err, NULL);
        _exit(rc == KILN_E_OK ? 0 : 127);
    }
    return child;
}

/* Runs the program until it ends.  Does not ignore SIGCHLD, as a parent may have arranged: the
 * kernel would forget the program's status. */
static int run_program(const struct invocation *invocation, int *ret_status, struct kiln_error *err)
{
    const struct sigaction standard = { .sa_handler = SIG_DFL };
    struct sigaction before;
    siginfo_t ended;
    sigaction(SIGCHLD, &standard, &before);
    pid_t child = start_program(invocation, &before, err);
    if (child < 0)
        return cli_fail_errno(err, errno, "cannot start '%.500s'", invocation->words[0]);
    while (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    program = 0;
    while (waitpid(child, ret_status, 0) < 0 && errno == EINTR)
        ;
    return KILN_E_OK;
}

static int run_and_explain(const struct invocation *invocation, struct kiln_error *err)
{
    char path[PATH_MAX];
    int status = 0, fd = -1;
    int rc = create_report(path, &fd, err);
    if (rc)
        return rc;
    if (setenv("KILN_RTC_REPORT", path, 1))
        rc = cli_fail(err, KILN_E_NO_MEMORY, "out of memory");
    if (!rc)
        rc = run_program(invocation, &status, err);
    unlink(path);
    if (rc) {
        close(fd);
        return rc;
    }
    const struct run_options *given = invocation->options;
    run_report_print(fd, given->torch, invocation->common->json);
    exit(status_of(status));
}

static int set_preload(struct kiln_error *err)
{
    char value[PRELOAD_MAX];
    int rc = preload_value(value, err);
    if (!rc && setenv("LD_PRELOAD", value, 1))
        rc = cli_fail(err, KILN_E_NO_MEMORY, "out of memory");
    return rc;
}

static int set_python_path(struct kiln_error *err)
{
    char value[PYTHON_PATH_MAX];
    int rc = python_path_value(value, err);
    if (!rc && setenv("PYTHONPATH", value, 1))
        rc = cli_fail(err, KILN_E_NO_MEMORY, "out of memory");
    return rc;
}

static int run_run(const struct invocation *invocation, struct kiln_error *err)
{
    const struct run_options *given = invocation->options;
    int rc = set_preload(err);
    if (!rc && given->torch)
        rc = set_python_path(err);
    if (rc)
        return rc;
    fflush(NULL);
    return given->explain ? run_and_explain(invocation, err) : execute(invocation, err);
}

const struct command command_exec = {
    .name = "run",
    .words = "-- COMMAND [ARGUMENT...]",
    .summary = "run a program whose NVRTC, hiprtc and comgr compiles kilnd keeps",
    .help =
        "Runs COMMAND with libkiln-rtc preloaded.  When the program compiles by NVRTC, hiprtc or\n"
        "comgr, kilnd answers if the same compile was done before by the same user: in another\n"
        "process, or by another program.  Otherwise the program compiles with its own library,\n"
        "and kilnd keeps the result.  Processes that need the same compile at the same time do it\n"
        "once.  The exit status is COMMAND's, or one of those below if it cannot be started.\n"
        "\n"
        "--torch also sets PYTHONPATH, so that every Python from 3.9 on, in COMMAND and the "
        "processes\n"
        "that it starts, calls kiln.torch.install() when it has imported PyTorch.  If that fails,\n"
        "one line on standard error gives the reason, and PyTorch runs everything.\n"
        "\n"
        "--explain reports on standard error which of these libraries the program loaded, how\n"
        "many compiles kilnd answered, how many seconds these once took, and why other compiles\n"
        "were not answered.  With --torch, it also reports how many convolutions kiln ran, and "
        "why\n"
        "PyTorch ran the others.  With --json, the report is one line of JSON.\n"
        "\n"
        "KILN_RTC=off switches it off, KILN_RTC=record stores results without using them.  What\n"
        "kilnd cannot answer, the program's own library compiles as always.",
    .least_words = 1,
    .most_words = SIZE_MAX,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct run_options),
    .run = run_run,
};
