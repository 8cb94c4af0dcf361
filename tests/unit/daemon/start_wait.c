/* SPDX-License-Identifier: MIT */
#include "daemon/start_wait.h"

#include "common/base/clock.h"
#include "common/log/log.h"
#include "tests/support/test.h"

#include <poll.h>

/* A step that takes |took_ns|, and returns KILN_BUSY |busy| times and then |last|. */
struct step {
    unsigned busy;
    enum kiln_code last;
    uint64_t took_ns;
    unsigned runs;
};

static unsigned pauses, lines;
static uint64_t now_ns;

WRAP(uint64_t, clock_monotonic_ns, void) { return now_ns; }

WRAP(int, poll, struct pollfd *fds, nfds_t count, int timeout_ms)
{
    assert_null(fds);
    assert_int_equal(count, 0);
    assert_true(timeout_ms > 0);
    pauses++;
    now_ns += (uint64_t)timeout_ms * 1000000u;
    return 0;
}

WRAP(void, log_event, enum log_event event, const struct log_fields *fields, const char *fmt, ...)
{
    (void)fields;
    (void)fmt;
    lines += event == LOG_EVENT_start_waits;
}

static enum kiln_code run_step(void *context, struct kiln_err *err)
{
    struct step *s = context;
    now_ns += s->took_ns;
    if (s->runs++ < s->busy)
        return kiln_fail(err, KILN_BUSY, "another process has it");
    return s->last ? kiln_fail(err, s->last, "it failed") : KILN_OK;
}

SET_UP_OF(set_up, struct step) { pauses = lines = 0; }

FIXTURE_OF(start_wait, struct step, set_up, NULL);

TEST_F(start_wait, a_step_that_succeeds_is_not_repeated)
{
    struct kiln_err err = KILN_ERR_INIT;
    must(start_wait(run_step, f, &err), err);
    assert_int_equal(f->runs, 1);
    assert_int_equal(pauses, 0);
    assert_int_equal(lines, 0);
}

TEST_F(start_wait, a_busy_step_is_repeated_until_it_succeeds)
{
    struct kiln_err err = KILN_ERR_INIT;
    f->busy = 3;
    must(start_wait(run_step, f, &err), err);
    assert_int_equal(f->runs, 4);
    assert_int_equal(pauses, 3);
    assert_int_equal(lines, 1);
    assert_int_equal(err.code, KILN_OK);
}

TEST_F(start_wait, a_step_that_stays_busy_fails_with_its_own_message)
{
    struct kiln_err err = KILN_ERR_INIT;
    f->busy = ~0u;
    assert_int_equal(start_wait(run_step, f, &err), KILN_BUSY);
    assert_string_equal(err.text, "another process has it");
    assert_true(pauses > 1);
    assert_int_equal(lines, 1);
}

/* A step may be slow because another program has locked a database. SQLite waits for such a lock
 * for some seconds. */
TEST_F(start_wait, a_slow_step_is_not_repeated_when_the_time_is_over)
{
    struct kiln_err err = KILN_ERR_INIT;
    f->busy = ~0u;
    f->took_ns = 5000000000u;
    assert_int_equal(start_wait(run_step, f, &err), KILN_BUSY);
    assert_int_equal(f->runs, 1);
}

TEST_F(start_wait, another_failure_ends_the_wait)
{
    struct kiln_err err = KILN_ERR_INIT;
    f->busy = 2;
    f->last = KILN_DENIED;
    assert_int_equal(start_wait(run_step, f, &err), KILN_DENIED);
    assert_string_equal(err.text, "it failed");
    assert_int_equal(f->runs, 3);
}
