/* SPDX-License-Identifier: MIT */
#include "daemon/config/reload.h"

#include "daemon/loop/loop.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"

#include <string.h>

static const char *const arguments[] = { "kilnd",      "--compiler", "/bin/true",
                                         "--transfer", "/bin/true",  NULL };
#define ARGUMENT_COUNT 5

struct fixture {
    struct loop *loop;
    struct work_queues *work_queues;
    struct config config;
    struct reload reload;
    struct kiln_err err;
    unsigned begun, ended;
};

static struct fixture *fixture_of(struct reload *r)
{
    return (struct fixture *)((char *)r - offsetof(struct fixture, reload));
}

static enum kiln_code apply(struct reload *r, const struct config *fresh,
                            const struct peer_groups *groups, struct kiln_err *err)
{
    (void)r;
    (void)fresh;
    (void)groups;
    (void)err;
    return KILN_OK;
}

static void begins(struct reload *r) { fixture_of(r)->begun++; }

static void ended(struct reload *r, const char *note)
{
    (void)note;
    fixture_of(r)->ended++;
}

static int set_up(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    f.err = KILN_ERR_INIT;
    must(loop_create(&f.loop, &f.err), f.err);
    must(work_queues_create(f.loop, 1, &f.work_queues, &f.err), f.err);
    must(config_load(ARGUMENT_COUNT, arguments, (const char *const *)environ, &f.config, &f.err),
         f.err);
    const struct reload_parts parts = { .work_queues = f.work_queues,
                                        .config = &f.config,
                                        .argc = ARGUMENT_COUNT,
                                        .argv = arguments,
                                        .apply = apply,
                                        .begins = begins,
                                        .ended = ended };
    must(reload_init(&f.reload, &parts, &f.err), f.err);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    reload_done(&f->reload);
    work_queues_destroy(f->work_queues);
    loop_destroy(f->loop);
    return 0;
}

FIXTURE(reload, set_up, tear_down);

TEST(reload, one_that_is_asked_for_meanwhile_follows)
{
    struct fixture *f = *state;
    reload_begin(&f->reload);
    reload_begin(&f->reload);
    reload_begin(&f->reload);
    LOOP_TO_END(f->loop, "the reload to end");
    assert_int_equal(f->begun, 2);
    assert_int_equal(f->ended, 2);
}

TEST(reload, one_that_waits_is_dropped_when_kilnd_stops)
{
    struct fixture *f = *state;
    reload_begin(&f->reload);
    reload_begin(&f->reload);
    reload_cancel(&f->reload);
    LOOP_TO_END(f->loop, "the reload to end");
    assert_int_equal(f->begun, 1);
    assert_int_equal(f->ended, 1);
    assert_false(reload_is_under_way(&f->reload));
}
