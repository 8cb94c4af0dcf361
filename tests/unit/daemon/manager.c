/* SPDX-License-Identifier: MIT */
#include "daemon/manager/manager.h"

#include "common/log/log.h"
#include "daemon/manager/notify.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/daemon/loop_fixture.h"

#include <string.h>

#define SECOND_NS UINT64_C(1000000000)

static struct {
    uint64_t longest_ns;
    unsigned polls;
    unsigned signals;
    unsigned logged;
} seen;

WRAP(uint64_t, work_queues_longest_ns, const struct work_queues *work_queues)
{
    (void)work_queues;
    seen.polls++;
    return seen.longest_ns;
}

WRAP(bool, notify_manager, const char *state, const struct notify_files *files,
     enum notify_urgency urgency)
{
    (void)files;
    (void)urgency;
    seen.signals += strcmp(state, "WATCHDOG=1") == 0;
    return true;
}

WRAP(uint64_t, notify_watchdog_ms, void) { return 1; }

WRAP(struct engine_pulse, engine_pulse, const struct engine *engine)
{
    (void)engine;
    return (struct engine_pulse){ 0 };
}

KILN_PRINTF(3, 4)
WRAP(void, log_event, enum log_event event, const struct log_fields *fields, const char *fmt, ...)
{
    (void)fields;
    (void)fmt;
    assert_int_equal(event, LOG_EVENT_work_stuck);
    seen.logged++;
}

struct fixture {
    struct loop *loop;
    struct loop_owner owner;
    struct kiln_err err;
    struct manager manager;
};

SET_UP(set_up)
{
    memset(&seen, 0, sizeof(seen));
    f->loop = open_loop();
    manager_init(&f->manager, f->loop, &f->owner, NULL, "off");
    manager_ready(&f->manager);
}

TEAR_DOWN(tear_down) { manager_close(&f->manager); }

FIXTURE(manager, set_up, tear_down);

static void run_polls(struct fixture *f, unsigned count)
{
    unsigned most = seen.polls + count;
    LOOP_UNTIL(f->loop, seen.polls >= most);
}

TEST_F(manager, a_task_that_hangs_stops_the_watchdog_signals)
{
    seen.longest_ns = (MANAGER_STUCK_S - 1) * SECOND_NS;
    run_polls(f, 2);
    assert_int_equal(seen.signals, seen.polls);
    assert_int_equal(seen.logged, 0);

    unsigned signals = seen.signals;
    seen.longest_ns = MANAGER_STUCK_S * SECOND_NS;
    run_polls(f, 3);
    assert_int_equal(seen.signals, signals);
    assert_int_equal(seen.logged, 1);
}

TEST_F(manager, a_task_that_ends_after_all_starts_the_watchdog_signals_again)
{
    seen.longest_ns = MANAGER_STUCK_S * SECOND_NS;
    run_polls(f, 1);
    assert_int_equal(seen.signals, 0);

    seen.longest_ns = 0;
    run_polls(f, 1);
    assert_int_equal(seen.signals, 1);
}
