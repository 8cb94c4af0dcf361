/* SPDX-License-Identifier: MIT */
#include "common/base/process.h"

#include "tests/support/child.h"
#include "tests/support/test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(plain, a_process_that_runs_lives)
{
    assert_true(process_lives(getpid()));
    assert_true(process_lives(getppid()));
}

TEST(plain, an_unknown_process_does_not_live)
{
    assert_false(process_lives(0));
    assert_false(process_lives(-1));
}

TEST(plain, a_process_that_has_ended_does_not_live)
{
    const pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    siginfo_t ended;
    assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
    assert_false(process_lives(pid));
    await_child(pid);
    assert_false(process_lives(pid));
}
