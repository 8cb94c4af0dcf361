/* SPDX-License-Identifier: MIT */
#include "engine/service/metrics/history.h"

#include "tests/unit/engine/service/users_fixture.h"

#include "engine/service/internal.h"

#include <stdio.h>
#include <string.h>

#define START 1700000000u

/* Only pass_time advances the clock, except that each reading advances it by 1 ns. */
static uint64_t wall_s, past_ns;
uint64_t __wrap_clock_wall_s(void);
uint64_t __wrap_clock_wall_s(void) { return wall_s; }
uint64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void) { return past_ns++; }

static void pass_time(unsigned seconds)
{
    wall_s += seconds;
    past_ns += seconds * UINT64_C(1000000000);
}

SET_UP_OF(setup, struct users)
{
    wall_s = START;
    past_ns = UINT64_C(1000000000000);
    users_open(f, /* describe= */ true);
}

FIXTURE_OF(history, struct users, setup, NULL);

/* Answers the describe job if there is one. The engine sends it again every minute. */
static void answer_describe(struct users *f)
{
    struct compile_task *task = fake_executor_next_compile(&f->engine.executor);
    if (task && task->job.kind == COMPILE_DESCRIBE)
        engine_fixture_describe(&f->engine);
}

static void tick_engine(struct users *f)
{
    engine_tick(f->engine.engine);
    fake_executor_run_tasks(&f->engine.executor);
}

static void fetch_described(struct users *f, const char *program)
{
    test_caller_forget_replies(&f->ann);
    fetch_program(&f->ann, 7, program);
    answer_describe(f);
}

static void compile_described(struct users *f, const char *program)
{
    char content[64];
    snprintf(content, sizeof(content), "the object of %s", program);
    fetch_described(f, program);
    finish_compile(f, content);
}

static struct json *ask_history(struct users *f, const char *question)
{
    return test_caller_ask(&f->ann, MESSAGE_history, question);
}

static const struct json *sample_at(const struct json *answer, unsigned index)
{
    const struct json *j = json_first(json_get(answer, "samples"));
    while (j && index-- > 0)
        j = json_next(j);
    assert_non_null(j);
    return j;
}

TEST_F(history, a_sample_has_the_counts_since_the_previous_one)
{
    compile_described(f, "k.cl");
    fetch_described(f, "k.cl");
    pass_time(HISTORY_EVERY_S + 1);
    tick_engine(f);
    fetch_described(f, "k.cl");
    fetch_described(f, "k.cl");
    pass_time(HISTORY_EVERY_S + 1);
    tick_engine(f);

    KILN_AUTO(json) struct json *answer = ask_history(f, "{\"step\":1}");
    assert_int_equal(json_count(json_get(answer, "samples")), 2);
    const struct json *first = sample_at(answer, 0), *second = sample_at(answer, 1);
    assert_int_equal(json_get_u64(first, "fetches", 0), 2);
    assert_int_equal(json_get_u64(first, "compiles", 0), 1);
    assert_int_equal(json_get_u64(first, "misses", 0), 1);
    assert_int_equal(json_get_u64(json_get(first, "miss_reasons"), "new", 0), 1);
    assert_int_equal(json_get_u64(first, "store_objects", 0), 1);
    assert_int_equal(json_get_u64(first, "span_s", 0), HISTORY_EVERY_S + 1);
    assert_int_equal(json_get_u64(json_get(second, "hits"), "hot", 0), 2);
    assert_int_equal(json_get_u64(second, "compiles", 9), 0);
    assert_true(json_get_number(second, "saved_s", 0) == 0.01);
    assert_int_equal(json_get_u64(answer, "every_s", 0), HISTORY_EVERY_S);
}

TEST_F(history, an_unwritten_sample_is_reported_as_current)
{
    compile_described(f, "k.cl");
    pass_time(7);
    KILN_AUTO(json) struct json *answer = ask_history(f, "{}");
    const struct json *current = json_get(answer, "current");
    assert_int_equal(json_count(json_get(answer, "samples")), 0);
    assert_int_equal(json_get_u64(current, "fetches", 0), 1);
    assert_int_equal(json_get_u64(current, "span_s", 0), 7);
    assert_int_equal(json_get_u64(current, "time", 0), START + 7);
    assert_int_equal(json_get_u64(answer, "misses", 0), 1);
}

TEST_F(history, an_idle_hour_leaves_no_sample)
{
    for (unsigned i = 0; i < 12; i++) {
        pass_time(HISTORY_EVERY_S + 1);
        tick_engine(f);
    }
    compile_described(f, "k.cl");
    pass_time(HISTORY_EVERY_S + 1);
    tick_engine(f);
    KILN_AUTO(json) struct json *answer = ask_history(f, "{}");
    assert_int_equal(json_count(json_get(answer, "samples")), 1);
    assert_int_equal(json_get_u64(sample_at(answer, 0), "span_s", 0), HISTORY_EVERY_S + 1);
}

TEST_F(history, samples_of_one_step_are_reported_together)
{
    compile_described(f, "k.cl");
    for (unsigned i = 0; i < 6; i++) {
        fetch_described(f, "k.cl");
        pass_time(HISTORY_EVERY_S + 1);
        tick_engine(f);
    }
    KILN_AUTO(json) struct json *answer = ask_history(f, "{\"step\":86400}");
    assert_int_equal(json_count(json_get(answer, "samples")), 1);
    assert_int_equal(json_get_u64(sample_at(answer, 0), "fetches", 0), 7);
    assert_int_equal(json_get_u64(sample_at(answer, 0), "span_s", 0), 6 * (HISTORY_EVERY_S + 1));
    assert_int_equal(json_get_u64(sample_at(answer, 0), "time", 0), START / 86400 * 86400);
    assert_int_equal(json_get_u64(sample_at(answer, 0), "store_objects", 0), 1);
}

TEST_F(history, only_the_last_weeks_are_kept)
{
    compile_described(f, "k.cl");
    pass_time(HISTORY_EVERY_S + 1);
    tick_engine(f);
    pass_time(HISTORY_KEPT_S + 1);
    fetch_described(f, "k.cl");
    tick_engine(f);
    KILN_AUTO(json) struct json *answer = ask_history(f, "{\"since\":0}");
    assert_int_equal(json_count(json_get(answer, "samples")), 1);
    assert_int_equal(json_get_u64(sample_at(answer, 0), "compiles", 9), 0);
}

TEST_F(history, the_history_survives_a_restart)
{
    compile_described(f, "k.cl");
    pass_time(20);
    engine_drain(f->engine.engine);
    fake_executor_run_tasks(&f->engine.executor);
    users_reopen(f);
    pass_time(20);
    KILN_AUTO(json) struct json *answer = ask_history(f, "{}");
    assert_int_equal(json_count(json_get(answer, "samples")), 1);
    assert_int_equal(json_get_u64(sample_at(answer, 0), "span_s", 0), 20);
    assert_int_equal(json_get_u64(json_get(answer, "current"), "fetches", 9), 0);
}

static bool put_is_dropped;
WRAP(enum kiln_code, kernel_store_history_put, struct kernel_store *store,
     const struct kernel_sample *sample, uint64_t kept_s, bool *ret_written, struct kiln_err *err)
{
    *ret_written = false;
    return put_is_dropped
               ? KILN_OK
               : __real_kernel_store_history_put(store, sample, kept_s, ret_written, err);
}

TEST_F(history, a_sample_that_a_full_disk_refuses_is_part_of_the_next_one)
{
    put_is_dropped = true;
    compile_described(f, "k.cl");
    pass_time(HISTORY_EVERY_S + 1);
    tick_engine(f);
    put_is_dropped = false;
    fetch_described(f, "k.cl");
    pass_time(HISTORY_EVERY_S + 1);
    tick_engine(f);
    KILN_AUTO(json) struct json *answer = ask_history(f, "{}");
    assert_int_equal(json_count(json_get(answer, "samples")), 1);
    assert_int_equal(json_get_u64(sample_at(answer, 0), "fetches", 0), 2);
    assert_int_equal(json_get_u64(sample_at(answer, 0), "span_s", 0), 2 * (HISTORY_EVERY_S + 1));
}

TEST_F(history, history_without_a_store_has_the_counts_since_start)
{
    static const enum kernel_store_mode modes[] = { KERNEL_STORE_OFF, KERNEL_STORE_READ_ONLY };
    for (size_t i = 0; i < 2; i++) {
        f->engine.options.store_mode = modes[i];
        users_reopen(f);
        compile_described(f, "k.cl");
        pass_time(HISTORY_EVERY_S + 1);
        tick_engine(f);
        KILN_AUTO(json) struct json *answer = ask_history(f, "{}");
        assert_int_equal(json_count(json_get(answer, "samples")), 0);
        assert_int_equal(json_get_u64(json_get(answer, "current"), "fetches", 0), 1);
    }
}

TEST_F(history, a_clock_set_back_spoils_no_sample)
{
    compile_described(f, "k.cl");
    pass_time(HISTORY_EVERY_S + 1);
    tick_engine(f);
    wall_s -= 3600;
    past_ns += (HISTORY_EVERY_S + 1) * UINT64_C(1000000000);
    fetch_described(f, "k.cl");
    tick_engine(f);
    wall_s += 7200;
    KILN_AUTO(json) struct json *answer = ask_history(f, "{}");
    uint64_t sum = 0;
    for (const struct json *j = json_first(json_get(answer, "samples")); j; j = json_next(j)) {
        sum += json_get_u64(j, "fetches", 0);
        assert_in_range(json_get_u64(j, "span_s", 0), 1, 2 * HISTORY_EVERY_S);
    }
    assert_int_equal(sum, 2);
}

TEST_F(history, the_slowest_compiles_are_listed_without_private_ones)
{
    compile_described(f, "a.cl");
    compile_described(f, "b.cl");
    KILN_AUTO(json) struct json *two = ask_history(f, "{}");
    assert_int_equal(json_count(json_get(two, "slowest")), 2);
    const struct json *slowest = json_first(json_get(two, "slowest"));
    assert_true(json_get_number(slowest, "compile_s", 0) == 0.005);
    assert_int_equal(json_get_u64(slowest, "uid", 0), 1000);
    KILN_AUTO(json)
    struct json *theirs = test_caller_ask(&f->admin, MESSAGE_history, "{}");
    assert_int_equal(json_get_u64(json_first(json_get(theirs, "slowest")), "uid", 0), 1000);
    KILN_AUTO(json) struct json *one = ask_history(f, "{\"slowest\":1}");
    assert_int_equal(json_count(json_get(one, "slowest")), 1);
    KILN_AUTO(json) struct json *none = ask_history(f, "{\"slowest\":0}");
    assert_int_equal(json_count(json_get(none, "slowest")), 0);
}

TEST_F(history, the_owner_of_a_slow_compile_is_hidden_from_others)
{
    fetch_program(&f->admin, 7, "a.cl");
    finish_compile(f, "the object");
    KILN_AUTO(json) struct json *answer = ask_history(f, "{}");
    assert_int_equal(json_count(json_get(answer, "slowest")), 1);
    assert_null(json_get(json_first(json_get(answer, "slowest")), "uid"));
    test_caller_forget_replies(&f->admin);
    KILN_AUTO(json)
    struct json *all = test_caller_ask(&f->admin, MESSAGE_history, "{}");
    assert_true(json_is_number(json_get(json_first(json_get(all, "slowest")), "uid")));
}
