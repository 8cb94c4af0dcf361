/* SPDX-License-Identifier: MIT */
#include "tests/unit/daemon/transfers_fixture.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "tests/support/child.h"

#include <dirent.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

TEST_F(transfers, a_process_that_survives_its_kill_is_reported)
{
    struct transfer stuck = transfer_of_user(f, "hangs", 7), other = transfer_of_user(f, "good", 8);
    make_immortal(f);

    struct transfer_result *o = run_transfer(f, &stuck);
    immortal.active = false;
    const struct transfer_result *next = run_transfer(f, &other);

    assert_int_equal(o->err.code, KILN_TIMED_OUT);
    assert_says(o->err.text, "has not ended");
    take_result(next, "package");
    let_them_die();
    LOOP_UNTIL(f->loop, files_in_staging(f) <= 0); /* removed after the process has ended */
    assert_int_equal(stuck.ended, 1);
}

TEST_F(transfers, a_cancelled_transfer_whose_process_survives_its_kill_is_reported_as_cancelled)
{
    struct transfer t = transfer_of(f, "hangs");
    make_immortal(f);
    f->options.silence_ms = 60000;
    start_transfer(f, &t);

    cancel_transfer(f, &t);

    assert_int_equal(t.task.result.err.code, KILN_CANCELLED);
}

TEST_F(transfers, a_user_with_several_stuck_transfers_is_refused_until_they_end)
{
    struct transfer stuck[] = { transfer_of_user(f, "hangs", 7), transfer_of_user(f, "hangs", 7) },
                    third = transfer_of_user(f, "good", 7), other = transfer_of_user(f, "good", 8),
                    later = transfer_of_user(f, "good", 7);
    make_immortal(f);
    run_transfer(f, &stuck[0]);
    run_transfer(f, &stuck[1]);

    struct transfer_result *o = run_transfer(f, &third);
    immortal.active = false;
    struct transfer_result *others = run_transfer(f, &other);

    assert_int_equal(o->err.code, KILN_BUSY);
    assert_says(o->err.text, "user 7");
    take_result(others, "package");
    let_them_die();
    LOOP_UNTIL(f->loop, files_in_staging(f) <= 0);
    LOOP_UNTIL(f->loop, work_queues_out(f->work_queues) <= 0);
    take_result(run_transfer(f, &later), "package");
}

TEST_F(transfers, closing_does_not_wait_for_a_stuck_transfer)
{
    struct transfer before = transfer_of(f, "hangs"), during = transfer_of(f, "hangs");
    make_immortal(f);
    run_transfer(f, &before);
    start_transfer(f, &during);

    close_transfers(f);

    assert_int_equal(before.task.result.err.code, KILN_TIMED_OUT);
    assert_int_equal(during.ended, 1);
    assert_true(immortal.count >= 2);
    for (size_t i = 0; i < immortal.count; i++)
        assert_int_equal(__real_kill(immortal.groups[i], 0), 0);
}

TEST_F(transfers, a_process_that_stays_after_its_result_is_ended_and_its_result_counts)
{
    f->options.exit_ms = 2000;
    expect_content(f, "good, then stays", "package");
}

TEST_F(transfers, a_process_that_is_stuck_after_its_result_times_out)
{
    struct transfer t = transfer_of(f, "good, then stays");
    make_immortal(f);
    f->options.silence_ms = 60000;

    const struct transfer_result *o = run_transfer(f, &t);

    assert_int_equal(o->err.code, KILN_TIMED_OUT);
    assert_says(o->err.text, "closing");
    assert_string_equal(o->path, "");
}

TEST(transfers, the_first_of_two_results_counts)
{
    expect_content(*state, "says two things", "package");
}

TEST_F(transfers, a_child_process_of_a_transfer_is_ended_with_it)
{
    struct transfer t = transfer_of(f, "leaves a process");
    pid_t child = 0;
    prctl(PR_SET_CHILD_SUBREAPER, 1);

    struct transfer_result *o = run_transfer(f, &t);

    must(o->err.code, o->err);
    FILE *file = fopen(o->path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &child), 1);
    fclose(file);
    unlink(o->path);
    int status = await_child(child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}
