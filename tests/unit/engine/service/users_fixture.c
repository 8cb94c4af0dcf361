/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/users_fixture.h"

static void join(struct users *f)
{
    test_caller_connect(&f->user, &f->engine, 1000, ROLE_USE);
    test_caller_connect(&f->admin, &f->engine, 0, ROLE_ADMIN);
}

static void leave(struct users *f)
{
    test_caller_leave(&f->user);
    test_caller_leave(&f->admin);
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
