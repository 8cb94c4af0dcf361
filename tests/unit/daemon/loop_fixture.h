/* SPDX-License-Identifier: MIT */
#pragma once

/* An event loop and its work queues for one test. Both are destroyed when the test ends. */
#include "daemon/loop/loop.h"
#include "daemon/loop/timer.h"
#include "daemon/loop/work_queues.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"

static inline void end_loop(void *loop) { LOOP_CLOSE((struct loop *)loop); }

/* Creates a loop. The end of the test waits until all handles of the loop are closed. */
static inline struct loop *open_loop(void)
{
    struct loop *loop = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    must(loop_create(&loop, &err), err);
    test_at_end(end_loop, loop);
    return loop;
}

static inline void on_tick(struct loop_timer *tick) { (void)tick; }
static inline void end_tick(void *tick) { loop_timer_close(tick); }

/* Like open_loop, but each loop iteration ends after a millisecond even if nothing happens. If
 * |tick| is still open when the test ends, it is closed then. */
static inline struct loop *open_ticking_loop(struct loop_timer *tick, struct loop_owner *owner)
{
    struct loop *loop = open_loop();
    loop_timer_init(loop, tick, owner, on_tick);
    loop_timer_start(tick, 1, 1);
    test_at_end(end_tick, tick);
    return loop;
}

static inline void end_work_queues(void *queues)
{
    assert_int_equal(work_queues_out(queues), 0);
    work_queues_destroy(queues);
}

/* When the test ends, no task may be left. */
static inline struct work_queues *open_work_queues(struct loop *loop, unsigned readers)
{
    struct work_queues *queues = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    must(work_queues_create(loop, readers, &queues, &err), err);
    test_at_end(end_work_queues, queues);
    return queues;
}
