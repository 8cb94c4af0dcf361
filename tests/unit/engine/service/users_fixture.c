/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/users_fixture.h"
#include "tests/support/entries.h"
#include "tests/support/stepped_clock.h"

#include <stdio.h>

static void connect_callers(struct users *f)
{
    test_caller_connect(&f->ann, &f->engine, 1000, ROLE_USE);
    test_caller_connect(&f->bob, &f->engine, 1001, ROLE_USE);
    test_caller_connect(&f->publisher, &f->engine, 1002, ROLE_PUBLISH);
    test_caller_connect(&f->admin, &f->engine, 0, ROLE_ADMIN);
}

static void leave_callers(struct users *f)
{
    test_caller_leave(&f->ann);
    test_caller_leave(&f->bob);
    test_caller_leave(&f->publisher);
    test_caller_leave(&f->admin);
}

static void users_close(void *users)
{
    struct users *f = users;
    leave_callers(f);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(engine_fixture_staged(&f->engine), 0);
    engine_fixture_stop(&f->engine);
    assert_int_equal(descriptor_count(getpid()), f->descriptors);
}

void users_open(struct users *f, bool describe)
{
    step_clock(1);
    f->descriptors = descriptor_count(getpid());
    engine_fixture_open(&f->engine, describe);
    snprintf(f->file, sizeof(f->file), "%s/file", f->engine.directory);
    snprintf(f->made, sizeof(f->made), "%s/made", f->engine.directory);
    snprintf(f->again, sizeof(f->again), "%s/again", f->engine.directory);
    connect_callers(f);
    test_at_end(users_close, f);
}

void users_stop(struct users *f)
{
    leave_callers(f);
    engine_fixture_stop(&f->engine);
}

void users_start(struct users *f)
{
    engine_fixture_start(&f->engine, /* describe= */ true);
    connect_callers(f);
}

void users_start_as(struct users *f, const char *toolchains)
{
    engine_fixture_start(&f->engine, /* describe= */ false);
    if (toolchains)
        engine_fixture_describe_as(&f->engine, toolchains);
    connect_callers(f);
}

void users_reopen(struct users *f)
{
    users_stop(f);
    users_start(f);
}

uint64_t users_stat(struct users *f, const char *name)
{
    return engine_fixture_stat(&f->engine, name);
}

unsigned count_tasks(const struct users *f)
{
    unsigned count = 0;
    LIST_EACH (&f->engine.executor.tasks, const struct task, item.link, t)
        count++;
    return count;
}

void fetch_program(struct test_caller *c, uint64_t id, const char *program)
{
    test_caller_fetch_source(c, id, program, PRIORITY_INTERACTIVE);
    fake_executor_run_tasks(&c->fixture->executor);
}

void finish_compile(struct users *f, const char *content)
{
    assert_non_null(fake_executor_next_compile(&f->engine.executor));
    fake_executor_compile(&f->engine.executor, bytes_of_text(content));
    fake_executor_run_tasks(&f->engine.executor);
}

void finish_compiles(struct users *f, struct bytes object)
{
    while (fake_executor_next_compile(&f->engine.executor)) {
        fake_executor_compile(&f->engine.executor, object);
        fake_executor_run_tasks(&f->engine.executor);
    }
}

struct digest compile_program(struct test_caller *c, const char *program)
{
    char content[64];
    snprintf(content, sizeof(content), "the object of %s", program);
    test_caller_forget_replies(c);
    fetch_program(c, 7, program);
    fake_executor_compile(&c->fixture->executor, bytes_of_text(content));
    fake_executor_run_tasks(&c->fixture->executor);
    return last_result(c).key;
}

void put_one(struct users *f, const char *file_name, const char *name, const char *content)
{
    const struct kernel_row row = TEXT_KERNEL(name, " -mcpu=gfx90a", content);
    put_package(&f->engine, file_name, &row, 1);
    engine_fixture_rescan(&f->engine);
}
