/* SPDX-License-Identifier: MIT */
#include "daemon/config/reload.h"

#include "daemon/loop/loop.h"
#include "tests/support/failing_calls.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/daemon/loop_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const arguments[] = { "kilnd", "--compiler=/bin/true", "--transfer=/bin/true",
                                         NULL };
#define ARGUMENT_COUNT 3

struct fixture {
    struct loop *loop;
    struct work_queues *work_queues;
    struct config config;
    struct reload reload;
    struct kiln_err err;
    enum kiln_code applies; /* result of the apply callback */
    unsigned begun, ended;
    char note[128];
};

static struct fixture *fixture_of(struct reload *r)
{
    return (struct fixture *)((char *)r - offsetof(struct fixture, reload));
}

static enum kiln_code apply_config(struct reload *r, const struct config *fresh,
                                   const struct peer_groups *groups, struct kiln_err *err)
{
    enum kiln_code code = fixture_of(r)->applies;
    (void)fresh;
    (void)groups;
    return code ? kiln_fail(err, code, "not now") : KILN_OK;
}

static void on_begin(struct reload *r) { fixture_of(r)->begun++; }

static void on_end(struct reload *r, const char *note)
{
    struct fixture *f = fixture_of(r);
    f->ended++;
    snprintf(f->note, sizeof(f->note), "%s", note);
}

static enum kiln_code init_reload(struct fixture *f, struct reload *reload)
{
    const struct reload_parts parts = { .work_queues = f->work_queues,
                                        .config = &f->config,
                                        .argc = ARGUMENT_COUNT,
                                        .argv = arguments,
                                        .apply = apply_config,
                                        .begins = on_begin,
                                        .ended = on_end };
    return reload_init(reload, &parts, &f->err);
}

SET_UP(set_up)
{
    f->loop = open_loop();
    f->work_queues = open_work_queues(f->loop, 1);
    must(config_load(ARGUMENT_COUNT, arguments, (const char *const *)environ, &f->config, &f->err),
         f->err);
    must(init_reload(f, &f->reload), f->err);
}

TEAR_DOWN(tear_down) { reload_done(&f->reload); }

FIXTURE(reload, set_up, tear_down);

TEST_F(reload, without_memory_for_the_configuration_no_reload_is_prepared)
{
    struct reload other;
    fail_call("malloc", 1, ENOMEM);
    assert_int_equal(init_reload(f, &other), KILN_NO_MEMORY);
    assert_true(calls_failed());
    assert_says(f->err.text, "configuration");
}

static void reload_times(struct fixture *f, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        reload_begin(&f->reload);
    LOOP_TO_END(f->loop, "the reload to end");
}

TEST_F(reload, requests_during_a_reload_cause_one_more_reload)
{
    reload_times(f, 3);
    assert_int_equal(f->begun, 2);
    assert_int_equal(f->ended, 2);
}

TEST_F(reload, a_waiting_reload_is_dropped_when_kilnd_stops)
{
    reload_begin(&f->reload);
    reload_begin(&f->reload);
    reload_cancel(&f->reload);
    LOOP_TO_END(f->loop, "the reload to end");
    assert_int_equal(f->begun, 1);
    assert_int_equal(f->ended, 1);
    assert_false(reload_is_under_way(&f->reload));
}

TEST_F(reload, a_reload_without_memory_does_not_begin)
{
    for (unsigned nth = 1; nth <= 2; nth++) {
        fail_call("calloc", nth, ENOMEM);
        reload_begin(&f->reload);
        assert_true(calls_failed());
        assert_false(reload_is_under_way(&f->reload));
    }
    assert_int_equal(f->begun, 0);
}

TEST_F(reload, a_configuration_that_cannot_be_applied_changes_nothing)
{
    f->applies = KILN_DENIED;
    reload_times(f, 1);
    assert_int_equal(f->ended, 1);
    assert_says(f->note, "invalid");
    assert_null(reload_waiting(&f->reload, CONFIG_workers));
}

TEST_F(reload, a_reloaded_setting_applies_at_once_or_waits_for_a_restart)
{
    setenv("KILND_WORKERS", "77", 1);
    setenv("KILND_CACHE_DIR", "/some/other", 1);
    setenv("KILND_LOG_LEVEL", "debug", 1);
    for (unsigned i = 0; i < 2; i++) {
        reload_times(f, 1);
        assert_string_equal(f->note, "");
        assert_int_equal(reload_waiting(&f->reload, CONFIG_workers)->value.number, 77);
        assert_non_null(reload_waiting(&f->reload, CONFIG_cache_dir));
        assert_null(reload_waiting(&f->reload, CONFIG_queue));
        assert_int_not_equal(config_number(&f->config, CONFIG_workers), 77);
        assert_string_equal(config_text(&f->config, CONFIG_log_level), "debug");
    }
    setenv("KILND_WORKERS", "none", 1);
    reload_times(f, 1);
    assert_says(f->note, "invalid");
    unsetenv("KILND_WORKERS");
    unsetenv("KILND_CACHE_DIR");
    unsetenv("KILND_LOG_LEVEL");
}

static void expect_refusal(struct fixture *f, const char *variable, const char *value,
                           const char *says)
{
    setenv(variable, value, 1);
    reload_times(f, 1);
    unsetenv(variable);
    assert_says(f->note, "invalid");
    assert_says(reload_refused(&f->reload), says);
}

TEST_F(reload, a_configuration_that_the_next_start_would_refuse_is_refused)
{
    expect_refusal(f, "KILND_FLEET", "foo", "KILND_FLEET");
    expect_refusal(f, "KILND_COMPILER_USER", "no-such-user", "compiler_user");
    expect_refusal(f, "KILND_TRANSFER_USER", "no-such-user", "transfer_user");
    setenv("KILND_FLEET", "file:///srv/fleet", 1);
    expect_refusal(f, "KILND_FLEET_BUILDER", "/nonexistent/host.key", "host.key");
    reload_times(f, 1);
    unsetenv("KILND_FLEET");
    assert_string_equal(f->note, "");
}
