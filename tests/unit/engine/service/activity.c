/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/users_fixture.h"

#include "engine/service/internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void fetch_as(struct users *f, struct test_caller *c, uint64_t id, const char *program,
                     enum priority priority)
{
    test_caller_fetch_source(c, id, program, priority);
    fake_executor_run_tasks(&f->engine.executor);
}

static struct json *ask_activity(struct test_caller *c)
{
    return test_caller_ask(c, MESSAGE_activity, NULL);
}

static const struct json *first_compile(const struct json *answer)
{
    const struct json *first = json_first(json_get(answer, "compiles"));
    assert_non_null(first);
    return first;
}

TEST_F(users, an_idle_engine_does_nothing)
{
    KILN_AUTO(json) struct json *answer = ask_activity(&f->ann);
    assert_int_equal(json_count(json_get(answer, "compiles")), 0);
    assert_int_equal(json_count(json_get(answer, "users")), 0);
    assert_int_equal(json_get_u64(json_get(answer, "others"), "waiting", 9), 0);
    assert_int_equal(json_get_u64(answer, "slots", 0), 1);
}

TEST_F(users, a_running_compile_is_listed_with_age_and_program_until_it_ends)
{
    fetch_as(f, &f->ann, 1, "a.cl", PRIORITY_INTERACTIVE);
    KILN_AUTO(json) struct json *answer = ask_activity(&f->ann);
    const struct json *compile = first_compile(answer);
    assert_int_equal(json_count(json_get(answer, "compiles")), 1);
    assert_string_equal(json_get_text(compile, "program", ""), "a.cl");
    assert_string_equal(json_get_text(compile, "target", ""), FIXTURE_TARGET);
    assert_string_equal(json_get_text(compile, "toolchain", ""), "opencl");
    assert_string_equal(json_get_text(compile, "kind", ""), "kernel");
    assert_true(json_get_number(compile, "age_s", -1) >= 0);
    assert_false(json_get_bool(compile, "prefetch", true));
    assert_int_equal(json_get_u64(compile, "uid", 0), 1000);

    finish_compiles(f, bytes_of_text("object"));
    KILN_AUTO(json) struct json *later = ask_activity(&f->ann);
    assert_int_equal(json_count(json_get(later, "compiles")), 0);
}

TEST_F(users, the_owner_of_a_compile_is_shown_to_the_owner_and_administrators)
{
    fetch_as(f, &f->ann, 1, "a.cl", PRIORITY_INTERACTIVE);
    fetch_as(f, &f->ann, 2, "b.cl", PRIORITY_PREFETCH);
    KILN_AUTO(json) struct json *theirs = ask_activity(&f->bob);
    assert_null(json_get(first_compile(theirs), "uid"));
    assert_string_equal(json_get_text(first_compile(theirs), "program", ""), "a.cl");
    assert_int_equal(json_count(json_get(theirs, "users")), 0);
    assert_int_equal(json_get_u64(json_get(theirs, "others"), "running", 0), 1);
    assert_int_equal(json_get_u64(json_get(theirs, "others"), "prefetch", 0), 1);

    KILN_AUTO(json) struct json *all = ask_activity(&f->admin);
    const struct json *user = json_first(json_get(all, "users"));
    assert_int_equal(json_get_u64(first_compile(all), "uid", 0), 1000);
    assert_int_equal(json_get_u64(user, "uid", 0), 1000);
    assert_int_equal(json_get_u64(user, "running", 0), 1);
    assert_int_equal(json_get_u64(user, "waiting", 0), 1);
    assert_int_equal(json_get_u64(user, "prefetch", 0), 1);
    finish_compiles(f, bytes_of_text("object"));
}

TEST_F(users, each_user_who_waits_has_a_line)
{
    fetch_as(f, &f->ann, 1, "a.cl", PRIORITY_INTERACTIVE);
    fetch_as(f, &f->admin, 2, "b.cl", PRIORITY_INTERACTIVE);
    fetch_as(f, &f->admin, 3, "c.cl", PRIORITY_PREFETCH);
    KILN_AUTO(json) struct json *answer = ask_activity(&f->admin);
    assert_int_equal(json_count(json_get(answer, "users")), 2);
    const struct json *root = json_next(json_first(json_get(answer, "users")));
    assert_int_equal(json_get_u64(root, "uid", 9), 0);
    assert_int_equal(json_get_u64(root, "waiting", 0), 2);
    assert_int_equal(json_get_u64(root, "prefetch", 0), 1);
    assert_int_equal(json_get_u64(root, "running", 9), 0);
    finish_compiles(f, bytes_of_text("object"));
}

static struct json *ask_health(struct test_caller *c, const char *question)
{
    return test_caller_ask(c, MESSAGE_health, question);
}

TEST(users, health_of_a_sound_host_has_its_numbers)
{
    struct users *f = *state;
    fetch_as(f, &f->ann, 1, "a.cl", PRIORITY_INTERACTIVE);
    finish_compiles(f, bytes_of_text("object"));
    KILN_AUTO(json) struct json *answer = ask_health(&f->ann, NULL);
    const struct json *cache = json_get(answer, "cache"), *limits = json_get(answer, "limits");
    const struct json *directory = json_first(json_get(answer, "directories"));
    assert_true(json_get_u64(cache, "bytes", 0) > 0);
    assert_true(json_get_bool(cache, "checked", false));
    assert_null(json_get(cache, "damage"));
    assert_true(json_get_u64(cache, "newest", 0) > 1700000000);
    assert_true(json_get_u64(answer, "now", 0) >= json_get_u64(cache, "newest", 0));
    assert_string_equal(json_get_text(directory, "what", ""), "cache");
    assert_true(json_get_u64(directory, "bytes", 0) >= json_get_u64(directory, "free_bytes", 0));
    assert_string_equal(json_get_text(json_next(directory), "what", ""), "state");
    assert_true(json_get_bool(limits, "memfd_sealed", false));
    assert_true(json_get_u64(limits, "open_files", 0) > 0);
}

TEST(users, health_reports_why_a_missing_directory_failed)
{
    struct users *f = *state;
    char moved[100];
    snprintf(moved, sizeof(moved), "%s.away", f->engine.state);
    assert_int_equal(rename(f->engine.state, moved), 0);
    KILN_AUTO(json) struct json *answer = ask_health(&f->ann, NULL);
    assert_int_equal(rename(moved, f->engine.state), 0);
    const struct json *state_directory = json_next(json_first(json_get(answer, "directories")));
    assert_string_equal(json_get_text(state_directory, "trouble", ""), "No such file or directory");
}

TEST_F(users, only_an_administrator_may_run_a_deep_health_check)
{
    KILN_AUTO(json) struct json *answer = ask_health(&f->admin, "{\"deep\":true}");
    assert_true(json_get_bool(json_get(answer, "cache"), "checked", false));
    test_caller_forget_replies(&f->ann);
    test_caller_send(&f->ann, MESSAGE_health, 9, bytes_of_text("{\"deep\":true}"));
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(f->ann.replies[0].type, MESSAGE_error);
}
