/* SPDX-License-Identifier: MIT */
#include "engine/service/metrics/accounting.h"

#include "tests/unit/engine/service/users_fixture.h"

#include "engine/service/internal.h"
#include "engine/service/metrics/accounting_tasks.h"

#include <stdio.h>
#include <string.h>

#define COMPILE_S 0.005 /* what fake_executor_compile reports as a compile's duration */

struct unstored {
    struct accounting *accounting;
};

SET_UP_OF(open_accounting, struct unstored)
{
    struct kiln_err err = KILN_ERR_INIT;
    must(accounting_create(&f->accounting, &err), err);
}

TEAR_DOWN_OF(close_accounting, struct unstored) { accounting_destroy(f->accounting); }

FIXTURE(unstored, open_accounting, close_accounting);

static uint32_t kind_row(struct accounting *l, const char *target, const char *program)
{
    struct object_origin what = { { 0 }, { 0 } };
    snprintf(what.target, sizeof(what.target), "%s", target);
    snprintf(what.program, sizeof(what.program), "%s", program);
    return accounting_kind_of(l, &what);
}

static struct kernel_sums sum_of_kinds(const struct accounting *l)
{
    struct kernel_sums sum = { 0 };
    for (unsigned i = 0; i < l->kind_count; i++)
        accounting_sums_add(&sum, &l->kinds[i].sums);
    return sum;
}

TEST(unstored, a_hit_is_charged_to_its_user_and_kind)
{
    struct accounting *l = ((struct unstored *)*state)->accounting;
    uint32_t conv = kind_row(l, "gfx90a", "conv.cl"), pool = kind_row(l, "gfx90a", "pool.cl");
    assert_int_not_equal(conv, pool);
    assert_int_equal(kind_row(l, "gfx90a", "conv.cl"), conv);
    accounting_hit(l, 1000, conv, 300);
    accounting_hit(l, 1000, conv, 300);
    accounting_hit(l, 1001, pool, 50);
    accounting_compiled(l, 1001, pool, 70);

    assert_int_equal(accounting_user_of(l, 1000)->sums.saved_us, 600);
    assert_int_equal(accounting_user_of(l, 1000)->sums.hits, 2);
    assert_int_equal(accounting_user_of(l, 1001)->sums.compile_us, 70);
    assert_int_equal(accounting_kind_at(l, conv)->sums.saved_us, 600);
    assert_int_equal(accounting_kind_at(l, pool)->sums.compiles, 1);
    assert_int_equal(accounting_total(l).saved_us, 650);
}

TEST(unstored, users_beyond_the_table_share_one_row)
{
    struct accounting *l = ((struct unstored *)*state)->accounting;
    for (uint32_t uid = 1; uid <= ACCOUNTING_USERS_MAX + 3; uid++)
        accounting_hit(l, uid, 0, 1);
    accounting_hit(l, 0, 0, 1);
    assert_int_equal(l->user_count, ACCOUNTING_USERS_MAX);
    assert_int_equal(l->others.sums.hits, 4);
    assert_int_equal(accounting_total(l).hits, ACCOUNTING_USERS_MAX + 4);
}

TEST(unstored, compiles_keep_a_users_row_and_loops_of_hits_do_not)
{
    struct accounting *l = ((struct unstored *)*state)->accounting;
    accounting_compiled(l, 7, 0, 2);
    for (uint32_t uid = 1000; uid < 1000 + 2 * ACCOUNTING_USERS_MAX; uid++)
        accounting_hit(l, uid, 0, 1000000);
    assert_int_equal(l->user_count, ACCOUNTING_USERS_MAX);
    assert_int_equal(accounting_user_of(l, 7)->sums.compiles, 1);
    accounting_hit(l, 999 + 2 * ACCOUNTING_USERS_MAX, 0, 1);
    assert_int_equal(accounting_user_of(l, 999 + 2 * ACCOUNTING_USERS_MAX)->sums.hits, 2);
    assert_int_equal(accounting_total(l).hits, 2 * ACCOUNTING_USERS_MAX + 1);
    assert_true(l->rewrites_users);
}

TEST(unstored, root_gets_a_row_of_its_own_in_a_full_table)
{
    struct accounting *l = ((struct unstored *)*state)->accounting;
    accounting_hit(l, 0, 0, 5);
    assert_int_equal(accounting_user_of(l, 0)->sums.hits, 1);
    for (uint32_t uid = 1; uid <= ACCOUNTING_USERS_MAX; uid++)
        accounting_hit(l, uid, 0, 1);
    accounting_hit(l, 0, 0, 5);
    assert_int_equal(accounting_user_of(l, 0)->sums.saved_us, 10);
}

TEST(unstored, a_kind_worth_little_loses_its_row_and_the_sums_stay)
{
    struct accounting *l = ((struct unstored *)*state)->accounting;
    uint32_t valuable = kind_row(l, "gfx90a", "valuable.cl"), first = 0;
    accounting_compiled(l, 1000, valuable, 2);
    accounting_hit(l, 1000, valuable, 2);
    for (unsigned i = 0; i < 3 * ACCOUNTING_KINDS_MAX; i++) {
        char name[32];
        snprintf(name, sizeof(name), "junk%u.cl", i);
        uint32_t number = kind_row(l, "gfx90a", name);
        first = i ? first : number;
        accounting_compiled(l, 1000, number, 1);
        /* A client can fake a million hits in a loop. Hits must not save the row of a kind that has
         * less compile time than the others. */
        accounting_hit(l, 1000, number, 1000000);
    }
    accounting_hit(l, 1000, first, 1);

    assert_int_equal(l->kind_count, ACCOUNTING_KINDS_MAX);
    assert_int_equal(accounting_kind_at(l, valuable)->sums.saved_us, 2);
    assert_ptr_equal(accounting_kind_at(l, first), &l->kinds[0]);
    assert_int_equal(sum_of_kinds(l).hits, 3 * ACCOUNTING_KINDS_MAX + 2);
    assert_int_equal(sum_of_kinds(l).saved_us, accounting_total(l).saved_us);
    assert_true(l->rewrites_kinds);
}

static bool has_target(struct accounting *l, const char *text, const char *target)
{
    uint32_t number = kind_row(l, text, ACCOUNTING_RTC);
    return strcmp(accounting_kind_at(l, number)->what.target, target) == 0;
}

TEST(unstored, compiles_of_clients_have_rows_for_known_targets_and_one_for_others)
{
    struct accounting *l = ((struct unstored *)*state)->accounting;
    for (unsigned i = 0; i < 2 * ACCOUNTING_KINDS_MAX; i++) {
        char text[32];
        snprintf(text, sizeof(text), i % 2 ? "gfx%05u" : "target %u", i);
        assert_true(has_target(l, text, "(other)"));
    }
    assert_true(has_target(l, "", "(other)"));
    assert_true(has_target(l, "sm_091", "(other)"));
    assert_true(has_target(l, "compute_gfx90a", "(other)"));
    assert_int_equal(l->kind_count, 2);
    assert_true(has_target(l, "sm_90", "sm_90"));
    assert_true(has_target(l, "compute_90", "compute_90"));
    assert_true(has_target(l, "gfx90a:xnack-:sramecc+", "gfx90a:sramecc+:xnack-"));
    assert_int_equal(l->kind_count, 5);
}

TEST(unstored, names_are_cut_and_made_printable)
{
    struct accounting *l = ((struct unstored *)*state)->accounting;
    uint32_t number = kind_row(l, "gfx90a", "a\033[2J\nb\xff");
    assert_string_equal(accounting_kind_at(l, number)->what.program, "a?[2J?b?");
    /* A kernel without target and program is counted in row 0, with all kernels that have no row of
     * their own. */
    assert_int_equal(kind_row(l, "", ""), 0);
}

TEST(unstored, the_time_saved_by_one_hit_is_capped)
{
    assert_int_equal(accounting_worth(1999), 1);
    assert_int_equal(accounting_worth(UINT64_MAX), ACCOUNTING_WORTH_MAX_US);
}

TEST(unstored, sums_saturate_at_the_stores_maximum)
{
    struct kernel_sums sum = { .saved_us = KERNEL_SUM_MAX - 1 };
    const struct kernel_sums more = { .saved_us = UINT64_MAX, .hits = 1 };
    accounting_sums_add(&sum, &more);
    assert_true(sum.saved_us == KERNEL_SUM_MAX);
    assert_int_equal(sum.hits, 1);
}

static void fetch_times(struct users *f, struct test_caller *c, const char *program, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        test_caller_forget_replies(c);
        test_caller_fetch_source(c, 7, program, PRIORITY_INTERACTIVE);
        fake_executor_run_tasks(&f->engine.executor);
        assert_int_equal(last_result(c).code, KILN_OK);
    }
}

static void restart_daemon(struct users *f)
{
    engine_drain(f->engine.engine);
    fake_executor_run_tasks(&f->engine.executor);
    users_reopen(f);
    fake_executor_run_tasks(&f->engine.executor);
}

static struct json *ask_usage(struct test_caller *c, const char *by)
{
    char question[64];
    snprintf(question, sizeof(question), "{\"by\":\"%s\"}", by);
    return test_caller_ask(c, MESSAGE_accounting, question);
}

/* Returns the row of the user |name| (a name or a uid), or NULL. */
static const struct json *row_of(const struct json *answer, const char *name)
{
    const char *by = json_get_text(answer, "by", "");
    for (const struct json *j = json_first(json_get(answer, "rows")); j; j = json_next(j)) {
        char uid[16];
        snprintf(uid, sizeof(uid), "%llu", (unsigned long long)json_get_u64(j, "uid", 0));
        const char *has = strcmp(by, "uid") == 0 ? uid : json_get_text(j, by, "");
        if (strcmp(has, name) == 0)
            return j;
    }
    return NULL;
}

#define assert_row(answer, name, hits_, compiles_)                                          \
    do {                                                                                    \
        const struct json *row = row_of(answer, name);                                      \
        assert_non_null(row);                                                               \
        assert_int_equal(json_get_u64(row, "hits", 99), (hits_));                           \
        assert_int_equal(json_get_u64(row, "compiles", 99), (compiles_));                   \
        assert_true(json_get_number(row, "saved_s", 99) == (double)(hits_)*COMPILE_S);      \
        assert_true(json_get_number(row, "compile_s", 9) == (double)(compiles_)*COMPILE_S); \
    } while (0)

TEST_F(users, saved_time_survives_a_restart)
{
    compile_program(&f->ann, "conv.cl");
    compile_program(&f->admin, "pool.cl");
    fetch_times(f, &f->ann, "conv.cl", 3);
    fetch_times(f, &f->admin, "conv.cl", 1);
    restart_daemon(f);
    /* the first fetch finds the kernel on disk, the second one in memory */
    fetch_times(f, &f->ann, "pool.cl", 2);
    restart_daemon(f);

    KILN_AUTO(json) struct json *by_uid = ask_usage(&f->admin, "uid");
    assert_row(by_uid, "1000", 5, 1);
    assert_row(by_uid, "0", 1, 1);
    assert_int_equal(json_get_u64(json_get(by_uid, "total"), "hits", 0), 6);
    assert_int_equal(json_get_u64(json_get(by_uid, "total"), "kernels", 0), 2);
    assert_true(json_get_bool(by_uid, "kept", false));
    KILN_AUTO(json) struct json *by_program = ask_usage(&f->admin, "program");
    assert_row(by_program, "conv.cl", 4, 1);
    assert_row(by_program, "pool.cl", 2, 1);
    KILN_AUTO(json) struct json *by_target = ask_usage(&f->admin, "target");
    assert_row(by_target, FIXTURE_TARGET, 6, 2);
    assert_int_equal(json_get_u64(row_of(by_target, FIXTURE_TARGET), "kernels", 0), 2);
}

static void send_batch(struct test_caller *c, unsigned count, const char *const programs[])
{
    BUFFER_AUTO struct buffer items;
    buffer_init(&items, 10000);
    for (unsigned i = 0; i < count; i++) {
        const struct message_fetch_source m = { .target = bytes_of_text(FIXTURE_TARGET),
                                                .program = bytes_of_text(programs[i]),
                                                .source = bytes_of_text("kernel void k() {}") };
        PUT_BATCH_ITEM(&items, 1, fetch_source, &m);
    }
    const struct message_batch m = { .count = count, .items = buffer_view(&items) };
    test_caller_forget_replies(c);
    SEND_MESSAGE(c, batch, 77, &m);
}

TEST_F(users, a_kernel_that_a_batch_names_twice_is_counted_once)
{
    static const char *const twice[] = { "conv.cl", "pool.cl", "conv.cl" };
    compile_program(&f->ann, "conv.cl");
    compile_program(&f->ann, "pool.cl");
    send_batch(&f->ann, 3, twice);
    assert_int_equal(users_stat(f, "hits.hot"), 3);
    restart_daemon(f);
    /* After the restart, both users find the kernels only on disk. */
    send_batch(&f->ann, 3, twice);
    send_batch(&f->admin, 3, twice);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(users_stat(f, "hits.disk"), 6);
    send_batch(&f->ann, 3, twice);

    KILN_AUTO(json) struct json *by_uid = ask_usage(&f->admin, "uid");
    assert_row(by_uid, "1000", 6, 2);
    assert_row(by_uid, "0", 2, 0);
    KILN_AUTO(json) struct json *by_program = ask_usage(&f->admin, "program");
    assert_row(by_program, "conv.cl", 4, 1);
    assert_row(by_program, "pool.cl", 4, 1);
}

TEST_F(users, a_displaced_user_is_not_counted_twice_after_a_restart)
{
    compile_program(&f->ann, "conv.cl");
    fetch_times(f, &f->admin, "conv.cl", 1);
    restart_daemon(f);
    struct accounting *l = f->engine.engine->metrics.accounting;
    /* With ann and the administrator, there is one user more than rows. The last of these users
     * takes the row of the administrator, who had a hit, but no compile. */
    for (uint32_t uid = 5000; uid < 5000 + ACCOUNTING_USERS_MAX - 1; uid++)
        accounting_compiled(l, uid, 0, 1);
    assert_int_equal(l->others.sums.hits, 1);
    restart_daemon(f);
    KILN_AUTO(json) struct json *answer = ask_usage(&f->admin, "uid");
    assert_int_equal(json_get_u64(json_get(answer, "total"), "hits", 0), 1);
    assert_int_equal(json_get_u64(json_get(answer, "total"), "compiles", 0), ACCOUNTING_USERS_MAX);
}

TEST_F(users, saved_time_survives_clearing_its_kernels)
{
    compile_program(&f->ann, "conv.cl");
    fetch_times(f, &f->ann, "conv.cl", 2);
    json_destroy(test_caller_ask(&f->admin, MESSAGE_clear, "{\"all\":true}"));
    restart_daemon(f);
    KILN_AUTO(json) struct json *answer = ask_usage(&f->admin, "program");
    assert_row(answer, "conv.cl", 2, 1);
    assert_int_equal(json_get_u64(row_of(answer, "conv.cl"), "kernels", 9), 0);
    assert_int_equal(json_get_u64(row_of(answer, "conv.cl"), "bytes", 9), 0);
}

TEST_F(users, a_private_kernel_is_accounted_without_its_name)
{
    const struct kernel_row row = TEXT_KERNEL("secret.o", "  -mcpu=gfx906", "the object");
    char cache[100];
    snprintf(cache, sizeof(cache), "%s/user.ukdb", f->engine.directory);
    write_kernel_file(cache, &row, 1);
    const int file = open_copy(cache);
    test_caller_forget_replies(&f->ann);
    test_caller_send_files(&f->ann, MESSAGE_kernel_import, "{\"name\":\"gfx906_60.ukdb\"}", &file,
                           1);
    fake_executor_transfer(&f->engine.executor, cache, "gfx906_60.ukdb", "");
    fake_executor_run_tasks(&f->engine.executor);
    json_destroy(reply_json(&f->ann, 0));
    for (unsigned i = 0; i < 2; i++) {
        test_caller_forget_replies(&f->ann);
        test_caller_fetch_name(&f->ann, "gfx906_60", "secret.o", "  -mcpu=gfx906");
        assert_int_equal(last_result(&f->ann).code, KILN_OK);
    }
    KILN_AUTO(json) struct json *answer = ask_usage(&f->admin, "program");
    const struct json *found = row_of(answer, ACCOUNTING_PRIVATE);
    assert_non_null(found);
    assert_int_equal(json_get_u64(found, "hits", 0), 2);
    assert_int_equal(json_get_u64(found, "kernels", 0), 1);
    assert_null(row_of(answer, "secret.o"));
}

TEST_F(users, a_user_sees_their_own_row_and_the_others_as_one)
{
    compile_program(&f->ann, "conv.cl");
    compile_program(&f->admin, "pool.cl");
    fetch_times(f, &f->admin, "conv.cl", 3);
    KILN_AUTO(json) struct json *answer = ask_usage(&f->ann, "uid");
    assert_int_equal(json_count(json_get(answer, "rows")), 1);
    assert_row(answer, "1000", 0, 1);
    const struct json *others = json_get(answer, "others");
    assert_int_equal(json_get_u64(others, "hits", 0), 3);
    assert_int_equal(json_get_u64(others, "kernels", 0), 1);
    assert_true(json_get_u64(others, "bytes", 0) > 0);
    assert_null(json_get(others, "uid"));
}

TEST_F(users, a_usage_request_without_a_grouping_is_refused)
{
    test_caller_refused(&f->ann, MESSAGE_accounting, "{}", KILN_INVALID, "'by'");
    test_caller_refused(&f->ann, MESSAGE_accounting, "{\"by\":\"moon\"}", KILN_INVALID,
                        "not 'moon'");
}

TEST_F(users, usage_without_a_store_is_counted_and_marked_as_not_kept)
{
    f->engine.options.store_mode = KERNEL_STORE_OFF;
    users_reopen(f);
    compile_program(&f->ann, "conv.cl");
    fetch_times(f, &f->ann, "conv.cl", 2);
    KILN_AUTO(json) struct json *answer = ask_usage(&f->ann, "program");
    assert_row(answer, "conv.cl", 2, 1);
    assert_false(json_get_bool(answer, "kept", true));
}

static bool put_is_dropped;
WRAP(enum kiln_code, kernel_store_accounting_put, struct kernel_store *store,
     const struct kernel_accounting *accounting, bool *ret_written, struct kiln_err *err)
{
    *ret_written = false;
    return put_is_dropped ? KILN_OK
                          : __real_kernel_store_accounting_put(store, accounting, ret_written, err);
}

TEST_F(users, usage_totals_that_a_full_disk_refuses_are_written_later)
{
    compile_program(&f->ann, "conv.cl");
    fetch_times(f, &f->ann, "conv.cl", 2);
    put_is_dropped = true;
    accounting_write(f->engine.engine, /* force= */ true);
    fake_executor_run_tasks(&f->engine.executor);
    put_is_dropped = false;
    fetch_times(f, &f->ann, "conv.cl", 1);
    restart_daemon(f);
    KILN_AUTO(json) struct json *answer = ask_usage(&f->ann, "uid");
    assert_row(answer, "1000", 3, 1);
}

static bool get_fails;
WRAP(enum kiln_code, kernel_store_accounting, struct kernel_store *store,
     const struct kernel_accounting_request *request, uint64_t *ret_since, struct kiln_err *err)
{
    return get_fails ? kiln_fail(err, KILN_IO, "the disk is gone")
                     : __real_kernel_store_accounting(store, request, ret_since, err);
}

TEST_F(users, usage_totals_that_cannot_be_read_are_not_overwritten)
{
    compile_program(&f->ann, "conv.cl");
    fetch_times(f, &f->ann, "conv.cl", 2);
    get_fails = true;
    restart_daemon(f);
    fetch_times(f, &f->ann, "conv.cl", 1);
    /* must write nothing: the earlier totals could not be read, and a write would replace them */
    accounting_write(f->engine.engine, /* force= */ true);
    fake_executor_run_tasks(&f->engine.executor);
    get_fails = false;
    accounting_write(f->engine.engine, /* force= */ true);
    fake_executor_run_tasks(&f->engine.executor);
    restart_daemon(f);
    KILN_AUTO(json) struct json *answer = ask_usage(&f->ann, "uid");
    assert_row(answer, "1000", 3, 1);
}

static void add_users(struct accounting *l, uint32_t first_uid)
{
    for (uint32_t i = 0; i < ACCOUNTING_USERS_MAX; i++)
        accounting_compiled(l, first_uid + i, 0, 1);
}

TEST_F(users, a_full_usage_table_is_loaded_in_many_loop_iterations)
{
    add_users(f->engine.engine->metrics.accounting, 5000);
    restart_daemon(f);
    unsigned laters = f->engine.executor.laters;
    get_fails = true;
    restart_daemon(f);
    get_fails = false;
    struct accounting *l = f->engine.engine->metrics.accounting;
    add_users(l, 20000);
    laters = f->engine.executor.laters;
    accounting_write(f->engine.engine, /* force= */ true);
    assert_true(fake_executor_run_task(&f->engine.executor));
    assert_false(l->is_loaded);
    assert_true(l->others.sums.compiles <= 32);
    fake_executor_run_tasks(&f->engine.executor);
    assert_true(l->is_loaded);
    assert_true(f->engine.executor.laters - laters >= ACCOUNTING_USERS_MAX / 32);
    assert_int_equal(accounting_total(l).compiles, 2 * ACCOUNTING_USERS_MAX);
}

TEST_F(users, a_usage_answer_has_what_was_counted_before_its_request)
{
    struct accounting *l = f->engine.engine->metrics.accounting;
    add_users(l, 5000);
    test_caller_forget_replies(&f->admin);
    test_caller_send(&f->admin, MESSAGE_accounting, 5, bytes_of_text("{\"by\":\"uid\"}"));
    add_users(l, 20000);
    fake_executor_run_tasks(&f->engine.executor);
    KILN_AUTO(json) struct json *answer = reply_json(&f->admin, 0);
    assert_int_equal(json_get_u64(json_get(answer, "total"), "compiles", 0), ACCOUNTING_USERS_MAX);
    assert_int_equal(json_count(json_get(answer, "rows")), 1000);
    assert_int_equal(json_get_u64(json_get(answer, "others"), "compiles", 0),
                     ACCOUNTING_USERS_MAX - 1000);
    assert_int_equal(accounting_total(l).compiles, 2 * ACCOUNTING_USERS_MAX);
}
