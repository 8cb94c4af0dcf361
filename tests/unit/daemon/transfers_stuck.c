/* SPDX-License-Identifier: MIT */
#include "tests/unit/daemon/transfers_fixture.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "daemon/loop/spawn.h"
#include "tests/support/child.h"

#include <dirent.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

TEST_F(transfers, a_process_that_survives_its_kill_is_reported)
{
    struct transfer stuck = transfer_of_user(f, "hangs", 7), other = transfer_of_user(f, "good", 8);
    make_immortal();

    struct transfer_result *o = run_silent(f, &stuck);
    immortal.active = false;
    const struct transfer_result *next = run_transfer(f, &other);

    assert_int_equal(o->err.code, KILN_TIMED_OUT);
    assert_says(o->err.text, "has not ended");
    take_result(next, "package");
    let_them_die();
    /* kilnd removes the files only after the process has ended */
    LOOP_UNTIL(f->loop, files_in_staging(f) <= 0);
    assert_int_equal(stuck.ended, 1);
}

TEST_F(transfers, a_cancelled_transfer_whose_process_survives_its_kill_is_reported_as_cancelled)
{
    struct transfer t = transfer_of(f, "hangs");
    make_immortal();
    start_transfer(f, &t);

    cancel_transfer(f, &t);

    assert_int_equal(t.task.result.err.code, KILN_CANCELLED);
}

TEST_F(transfers, a_user_with_several_stuck_transfers_is_refused_until_they_end)
{
    struct transfer stuck[] = { transfer_of_user(f, "hangs", 7), transfer_of_user(f, "hangs", 7) },
                    third = transfer_of_user(f, "good", 7), other = transfer_of_user(f, "good", 8),
                    later = transfer_of_user(f, "good", 7);
    make_immortal();
    run_silent(f, &stuck[0]);
    run_silent(f, &stuck[1]);

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
    make_immortal();
    run_silent(f, &before);
    start_transfer(f, &during);

    close_transfers(f);

    assert_int_equal(before.task.result.err.code, KILN_TIMED_OUT);
    assert_int_equal(during.ended, 1);
    assert_true(immortal.count >= 2);
    for (size_t i = 0; i < immortal.count; i++)
        assert_int_equal(__real_kill(immortal.groups[i], 0), 0);
}

/* ---- processes that are being started ---- */

static struct {
    atomic_bool waits; /* the next start waits for |go| */
    sem_t begun, go;
} starting;

WRAP(int, spawn_process, const struct loop_spawn *spawn, pid_t *ret_pid)
{
    if (atomic_exchange(&starting.waits, false)) {
        sem_post(&starting.begun);
        WAIT_FOR(sem_trywait(&starting.go) == 0);
    }
    return __real_spawn_process(spawn, ret_pid);
}

static uid_t uid_of_tasks;
static unsigned tasks_of_others;

WRAP(void, work_queues_run, struct work_queues *work_queues, enum work_queue work_queue,
     struct task *task)
{
    tasks_of_others += task->uid != uid_of_tasks;
    __real_work_queues_run(work_queues, work_queue, task);
}

TEST_F(transfers, all_tasks_of_a_transfer_count_for_its_user)
{
    struct transfer t = transfer_of_user(f, "good", 7);
    uid_of_tasks = 7;
    tasks_of_others = 0;

    take_result(run_transfer(f, &t), "package");

    assert_int_equal(tasks_of_others, 0);
}

/* Begins a transfer, and returns when a thread is about to start its process. */
static void begin_start(struct fixture *f, struct transfer *t)
{
    sem_init(&starting.begun, 0, 0);
    sem_init(&starting.go, 0, 0);
    atomic_store(&starting.waits, true);
    f->options.exit_ms = 30;
    open_transfers(f);
    transfers_start(f->transfers, &t->task);
    LOOP_UNTIL(f->loop, sem_trywait(&starting.begun) == 0);
}

TEST_F(transfers, a_cancelled_transfer_does_not_end_while_its_process_is_being_started)
{
    struct transfer t = transfer_of(f, "hangs");
    begin_start(f, &t);

    transfers_cancel(f->transfers, &t.task);
    for (unsigned i = 0; i < 50; i++) /* longer than exit_ms */
        loop_iteration(f->loop);
    assert_int_equal(t.ended, 0);

    sem_post(&starting.go);
    wait_for_end(f, &t);
    assert_int_equal(t.task.result.err.code, KILN_CANCELLED);
    LOOP_UNTIL(f->loop, files_in_staging(f) <= 0);
}

TEST_F(transfers, a_process_that_stays_after_its_result_is_ended_and_its_result_counts)
{
    struct transfer t = transfer_of(f, "good, then stays");
    open_transfers(f);
    transfers_start(f->transfers, &t.task);
    LOOP_UNTIL(f->loop, timers.exit);
    expire(timers.exit);
    wait_for_end(f, &t);
    take_result(&t.task.result, "package");
}

TEST_F(transfers, a_process_that_is_stuck_after_its_result_times_out)
{
    struct transfer t = transfer_of(f, "good, then stays");
    make_immortal();

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
