/* SPDX-License-Identifier: MIT */
#include "tests/unit/daemon/transfers_fixture.h"

#include "common/cleanup.h"
#include "common/fs.h"
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

/* ---- processes that do not end ---- */

static struct transfer transfer_of_user(const struct fixture *f, const char *url, uid_t uid)
{
    struct transfer t = transfer_of(f, url);
    t.task.uid = uid;
    return t;
}

TEST(transfers, a_process_that_survives_its_kill_gives_its_place_back)
{
    struct fixture *f = *state;
    struct transfer stuck = transfer_of_user(f, "hangs", 7), other = transfer_of_user(f, "good", 8);
    f->options.at_once = 1;
    make_immortal(f);

    struct transfer_result *o = run(f, &stuck);
    immortal.active = false;
    struct transfer_result *next = run(f, &other);

    assert_int_equal(o->err.code, KILN_TIMED_OUT);
    assert_says(o->err.text, "still there");
    must(next->err.code, next->err);
    take_result(next, "package");
    let_them_die();
    LOOP_UNTIL(f->loop, files_in_staging(f) <= 0); /* its directory goes when it went */
    assert_int_equal(stuck.ended, 1);
}

TEST(transfers, a_cancelled_one_that_survives_its_kill_is_cancelled_all_the_same)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "hangs");
    make_immortal(f);
    f->options.silence_ms = 60000;
    open_transfers(f);
    transfers_start(f->transfers, &t.task);
    LOOP_UNTIL(f->loop, t.reported);

    transfers_cancel(f->transfers, &t.task);
    wait_for(f, &t);

    assert_int_equal(t.task.result.err.code, KILN_CANCELLED);
}

TEST(transfers, a_user_with_several_stuck_transfers_is_refused_until_they_end)
{
    struct fixture *f = *state;
    struct transfer stuck[] = { transfer_of_user(f, "hangs", 7), transfer_of_user(f, "hangs", 7) },
                    third = transfer_of_user(f, "good", 7), other = transfer_of_user(f, "good", 8),
                    later = transfer_of_user(f, "good", 7);
    make_immortal(f);
    run(f, &stuck[0]);
    run(f, &stuck[1]);

    struct transfer_result *o = run(f, &third);
    immortal.active = false;
    struct transfer_result *others = run(f, &other);

    assert_int_equal(o->err.code, KILN_BUSY);
    assert_says(o->err.text, "user 7");
    must(others->err.code, others->err);
    take_result(others, "package");
    let_them_die();
    LOOP_UNTIL(f->loop, files_in_staging(f) <= 0);
    LOOP_UNTIL(f->loop, work_queues_out(f->work_queues) <= 0);
    struct transfer_result *again = run(f, &later);
    must(again->err.code, again->err);
    take_result(again, "package");
}

TEST(transfers, closing_does_not_wait_for_a_stuck_transfer)
{
    struct fixture *f = *state;
    struct transfer before = transfer_of(f, "hangs"), during = transfer_of(f, "hangs");
    make_immortal(f);
    run(f, &before);
    transfers_start(f->transfers, &during.task);
    LOOP_UNTIL(f->loop, during.reported);

    close_transfers(f);

    assert_int_equal(before.task.result.err.code, KILN_TIMED_OUT);
    assert_int_equal(during.ended, 1);
    assert_true(immortal.count >= 2);
    for (size_t i = 0; i < immortal.count; i++)
        assert_int_equal(__real_kill(immortal.groups[i], 0), 0); /* it is there */
}

TEST(transfers, a_transfer_that_stays_after_its_result_is_ended_and_its_result_counts)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "good, then stays");
    f->options.exit_ms = 2000;

    struct transfer_result *o = run(f, &t);

    must(o->err.code, o->err);
    take_result(o, "package");
}

TEST(transfers, a_stuck_transfer_that_sent_its_result_blocks_nothing)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "good, then stays");
    make_immortal(f);
    f->options.silence_ms = 60000;

    struct transfer_result *o = run(f, &t);

    assert_int_equal(o->err.code, KILN_TIMED_OUT);
    assert_says(o->err.text, "closing");
    assert_string_equal(o->path, "");
}

TEST(transfers, the_first_result_counts)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "says two things");

    struct transfer_result *o = run(f, &t);

    must(o->err.code, o->err);
    take_result(o, "package");
}

TEST(transfers, a_process_that_a_transfer_leaves_running_is_ended)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "leaves a process");
    pid_t left = 0;
    prctl(PR_SET_CHILD_SUBREAPER, 1);

    struct transfer_result *o = run(f, &t);

    must(o->err.code, o->err);
    FILE *file = fopen(o->path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &left), 1);
    fclose(file);
    unlink(o->path);
    int status = await_child(left);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(transfers, a_place_is_kept_for_administrators)
{
    struct fixture *f = *state;
    struct transfer users[] = { transfer_of_user(f, "hangs", 7), transfer_of_user(f, "hangs", 8) },
                    admin = transfer_of_user(f, "good", 0);
    admin.task.is_admin = true;
    f->options.for_admins = 1;
    open_transfers(f);
    transfers_start(f->transfers, &users[0].task);
    transfers_start(f->transfers, &users[1].task);
    LOOP_UNTIL(f->loop, users[0].reported);

    struct transfer_result *o = &admin.task.result;
    transfers_start(f->transfers, &admin.task);
    wait_for(f, &admin);

    must(o->err.code, o->err);
    take_result(o, "package");
    assert_int_equal(users[1].reported, 0);
    end(f, &users[0]);
    LOOP_UNTIL(f->loop, users[1].reported);
    end(f, &users[1]);
}
