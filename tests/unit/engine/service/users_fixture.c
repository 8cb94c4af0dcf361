/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/users_fixture.h"

static void join(struct users *f)
{
    test_caller_join(&f->user, &f->engine, 1000, ROLE_USE);
    test_caller_join(&f->admin, &f->engine, 0, ROLE_ADMIN);
    must(test_caller_hello(&f->user, &f->engine), f->engine.err);
    must(test_caller_hello(&f->admin, &f->engine), f->engine.err);
}

static void leave(struct users *f)
{
    test_caller_leave(&f->user, &f->engine);
    test_caller_leave(&f->admin, &f->engine);
}

int users_setup(void **state)
{
    static struct users f;
    engine_fixture_open(&f.engine, true);
    join(&f);
    *state = &f;
    return 0;
}

int users_teardown(void **state)
{
    struct users *f = *state;
    leave(f);
    engine_fixture_close(&f->engine);
    return 0;
}

void users_reopen(struct users *f)
{
    leave(f);
    engine_fixture_reopen(&f->engine);
    join(f);
}

void put_one(struct users *f, const char *file_name, const char *name, const char *content)
{
    const struct kernel_row row = TEXT_KERNEL(name, " -mcpu=gfx90a", content);
    put_package(&f->engine, file_name, &row, 1);
    engine_fixture_rescan(&f->engine);
}
