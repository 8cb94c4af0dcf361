/* SPDX-License-Identifier: MIT */
/* A host with an empty cache does not yet know whether its toolchain builds for a target. */
#include "tests/unit/engine/service/fleet_users.h"

#include "engine/service/internal.h"

#include <stdio.h>
#include <unistd.h>

static void remove_cache(const struct fleet_users *f)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/kernels.db", f->users.engine.options.cache_directory);
    assert_int_equal(unlink(path), 0);
}

SET_UP_OF(set_up, struct fleet_users)
{
    fill_amd_tree(f);
    users_stop(&f->users);
    remove_cache(f);
    f->users.engine.options.has_fleet = true;
    f->users.engine.options.fleet_keys = f->keys;
    users_start_as(&f->users, CLANG);
}
FIXTURE_OF(cold, struct fleet_users, set_up, NULL);

static void ask_plan(struct fleet_users *f, const char *target)
{
    struct message_plan m = { .problem = small_problem(8), .target = bytes_of_text(target) };
    test_caller_forget_replies(&f->users.ann);
    send_plan(&f->users.ann, 1, &m);
    run_tasks(f);
}

static enum compile_kind next_compile(struct fleet_users *f)
{
    struct compile_task *task = fake_executor_next_compile(&f->users.engine.executor);
    assert_non_null(task);
    return task->job.kind;
}

TEST_F(cold, a_target_in_the_fleet_needs_no_probe)
{
    ask_plan(f, "gfx90a:xnack-");
    assert_int_equal(next_compile(f), COMPILE_PROBE);
    assert_int_equal(count_gets(f), 1);
    serve_all(f);
    assert_int_equal(f->users.ann.reply_count, 1);
    assert_int_equal(users_stat(&f->users, "hits.fleet"), 1);
    assert_int_equal(count_gets(f), 3);               /* pointer, index, record */
    assert_int_equal(next_compile(f), COMPILE_PROBE); /* the only one, and still under way */
    finish_compile(&f->users, "probe");
    assert_null(fake_executor_next_compile(&f->users.engine.executor));
}

static void forget_probe(struct fleet_users *f, const char *text)
{
    struct toolchain_table *table = f->users.engine.engine->toolchains;
    struct target target;
    must(target_parse(bytes_of_text(text), &target, &f->err), f->err);
    toolchain_probe_learn(table, toolchain_table_find(table, bytes_of_text("clang")), &target,
                          PROBE_UNKNOWN, NULL);
}

TEST_F(cold, a_target_whose_index_is_in_memory_needs_no_probe)
{
    ask_plan(f, "gfx90a:xnack-");
    serve_all(f);
    finish_compile(&f->users, "probe");
    forget_probe(f, "gfx90a:xnack-");
    ask_plan(f, "gfx90a:xnack-");
    assert_int_equal(f->users.ann.reply_count, 1);
    assert_int_equal(next_compile(f), COMPILE_PROBE);
    finish_compile(&f->users, "probe");
}

TEST_F(cold, a_target_that_the_fleet_lacks_waits_for_its_probe)
{
    ask_plan(f, "gfx908:xnack-");
    serve_all(f);
    assert_int_equal(f->users.ann.reply_count, 0);
    assert_int_equal(next_compile(f), COMPILE_PROBE);
    finish_compile(&f->users, "probe");
    serve_all(f);
    assert_int_equal(next_compile(f), COMPILE_KERNEL);
    finish_compile(&f->users, "object");
}

TEST_F(cold, a_probe_that_fails_afterwards_counts)
{
    ask_plan(f, "gfx90a:xnack-");
    serve_all(f);
    fake_executor_fail(&f->users.engine.executor, COMPILE_REFUSED, "no", NULL);
    run_tasks(f);
    ask_plan(f, "gfx90a:xnack-");
    assert_reply_refuses(&f->users.ann, 0, KILN_UNSUPPORTED, "gfx90a:xnack-");
}
