/* SPDX-License-Identifier: MIT */
#include "store_fixture.h"
#include "tests/support/test.h"

#include "engine/store/kernel_metrics.h"

#include <stdio.h>
#include <string.h>

#define NOW 1700000000u

#define KEPT_MAX 8

struct kept {
    struct kernel_accounting_row rows[KEPT_MAX];
    char names[KEPT_MAX][2][64];
    size_t count;
    uint64_t since;
};

static void keep_row(void *context, const struct kernel_accounting_row *row)
{
    struct kept *kept = context;
    assert_true(kept->count < KEPT_MAX);
    char(*names)[64] = kept->names[kept->count];
    snprintf(names[0], sizeof(names[0]), "%s", row->target ? row->target : "");
    snprintf(names[1], sizeof(names[1]), "%s", row->program ? row->program : "");
    kept->rows[kept->count++] = *row;
}

static struct kept read_accounting(struct fixture *f, size_t max)
{
    struct kept kept = { .count = 0 };
    const struct kernel_accounting_request request = { .max = max,
                                                       .each = keep_row,
                                                       .context = &kept };
    must(kernel_store_accounting(f->store, &request, &kept.since, &f->err), f->err);
    return kept;
}

static struct kernel_accounting_row user_row(int64_t uid, uint64_t saved_us)
{
    return (struct kernel_accounting_row){ .is_user = true,
                                           .uid = uid,
                                           .sums = { .saved_us = saved_us, .hits = 2 } };
}

static struct kernel_accounting_row kind_row(const char *target, const char *program,
                                             uint64_t saved_us)
{
    return (struct kernel_accounting_row){
        .target = target,
        .program = program,
        .sums = { .saved_us = saved_us, .compiles = 3, .compile_us = 4 }
    };
}

static void write_rows(struct fixture *f, const struct kernel_accounting_row *rows, size_t count,
                       bool forget_kinds)
{
    const struct kernel_accounting accounting = {
        .rows = rows, .count = count, .since = NOW, .forget_kinds = forget_kinds
    };
    bool written = false;
    must(kernel_store_accounting_put(f->store, &accounting, &written, &f->err), f->err);
    assert_true(written);
}

TEST_F(store, accounting_rows_are_read_as_written)
{
    const struct kernel_accounting_row rows[] = { user_row(1000, 7),
                                                  user_row(KERNEL_ACCOUNTING_OTHERS, 1),
                                                  kind_row("gfx90a", "conv.cl", 9),
                                                  kind_row("", "", 1) };
    write_rows(f, rows, 4, false);
    const struct kernel_accounting_row again = user_row(1000, 8);
    write_rows(f, &again, 1, false);
    assert_int_equal(reopen(f, ROOMY), KILN_OK);

    struct kept kept = read_accounting(f, 100);

    assert_int_equal(kept.since, NOW);
    assert_int_equal(kept.count, 4);
    assert_int_equal(kept.rows[0].uid, KERNEL_ACCOUNTING_OTHERS);
    assert_int_equal(kept.rows[1].uid, 1000);
    assert_int_equal(kept.rows[1].sums.saved_us, 8);
    assert_int_equal(kept.rows[1].sums.hits, 2);
    assert_string_equal(kept.names[2][1], "");
    assert_string_equal(kept.names[3][0], "gfx90a");
    assert_string_equal(kept.names[3][1], "conv.cl");
    assert_int_equal(kept.rows[3].sums.compiles, 3);
    assert_int_equal(kept.rows[3].sums.compile_us, 4);
}

TEST_F(store, the_start_of_accounting_never_changes)
{
    bool written = false;
    write_rows(f, NULL, 0, false);
    const struct kernel_accounting later = { .since = NOW + 99 };
    must(kernel_store_accounting_put(f->store, &later, &written, &f->err), f->err);
    assert_int_equal(read_accounting(f, 1).since, NOW);
}

TEST_F(store, forgotten_targets_and_programs_do_not_come_back)
{
    const struct kernel_accounting_row rows[] = { kind_row("gfx90a", "junk.cl", 1),
                                                  user_row(5, 1) };
    const struct kernel_accounting_row kept_row = kind_row("gfx90a", "conv.cl", 2);
    write_rows(f, rows, 2, false);
    write_rows(f, &kept_row, 1, /* forget_kinds= */ true);
    struct kept kept = read_accounting(f, 100);
    assert_int_equal(kept.count, 2);
    assert_string_equal(kept.names[1][1], "conv.cl");
}

TEST_F(store, forgotten_users_do_not_come_back)
{
    const struct kernel_accounting_row rows[] = { kind_row("gfx90a", "conv.cl", 1),
                                                  user_row(5, 1) };
    const struct kernel_accounting_row kept_row = user_row(6, 2);
    const struct kernel_accounting accounting = {
        .rows = &kept_row, .count = 1, .since = NOW, .forget_users = true
    };
    bool written = false;
    write_rows(f, rows, 2, false);
    must(kernel_store_accounting_put(f->store, &accounting, &written, &f->err), f->err);
    struct kept kept = read_accounting(f, 100);
    assert_int_equal(kept.count, 2);
    assert_int_equal(kept.rows[0].uid, 6);
    assert_string_equal(kept.names[1][1], "conv.cl");
}

TEST_F(store, rows_with_the_largest_savings_are_read_first)
{
    const struct kernel_accounting_row rows[] = { user_row(1, 1), user_row(2, 9), user_row(3, 5) };
    write_rows(f, rows, 3, false);
    struct kept kept = read_accounting(f, 2);
    assert_int_equal(kept.count, 2);
    assert_int_equal(kept.rows[0].uid, 2);
    assert_int_equal(kept.rows[1].uid, 3);
}

TEST_F(store, sums_are_clamped_so_that_sqlite_can_add_them)
{
    const struct kernel_accounting_row row = user_row(1, UINT64_MAX);
    write_rows(f, &row, 1, false);
    assert_true(read_accounting(f, 1).rows[0].sums.saved_us == KERNEL_SUM_MAX);
}

TEST_F(store, negative_numbers_of_a_damaged_row_count_as_zero)
{
    const struct kernel_accounting_row row = user_row(1, 7);
    write_rows(f, &row, 1, false);
    meddle(f, "update accounting_user set saved_us = -5", NULL);
    assert_int_equal(read_accounting(f, 1).rows[0].sums.saved_us, 0);
}

struct samples {
    struct kernel_sample items[KEPT_MAX];
    size_t count;
};

static void keep_sample(void *context, const struct kernel_sample *sample)
{
    struct samples *samples = context;
    assert_true(samples->count < KEPT_MAX);
    samples->items[samples->count++] = *sample;
}

static struct samples read_history(struct fixture *f, uint64_t since, uint64_t step_s)
{
    struct samples samples = { .count = 0 };
    const struct kernel_history_range range = { since, step_s, KEPT_MAX };
    must(kernel_store_history(f->store, &range, keep_sample, &samples, &f->err), f->err);
    return samples;
}

static void add_sample(struct fixture *f, uint64_t time, uint64_t fetches, uint64_t store_bytes)
{
    struct kernel_sample sample = { .time = time, .span_s = 300 };
    bool written = false;
    sample.values[HISTORY_fetches] = fetches;
    sample.values[HISTORY_store_bytes] = store_bytes;
    sample.values[HISTORY_clients] = fetches % 7;
    must(kernel_store_history_put(f->store, &sample, 10000, &written, &f->err), f->err);
    assert_true(written);
}

TEST_F(store, a_migration_from_schema_5_keeps_the_accounting_and_the_history)
{
    const struct kernel_accounting_row row = user_row(1000, 7);
    write_rows(f, &row, 1, false);
    add_sample(f, NOW, 40, 8000);
    close_store(f);
    meddle(f, "alter table accounting_user rename to ledger_user", NULL);
    meddle(f, "alter table accounting_kind rename to ledger_kind", NULL);
    meddle(f, "alter table accounting rename to ledger", NULL);
    meddle(f, "alter table history add column hits_remote integer not null default 0", NULL);
    undo_migrations_7_to_9(f);
    meddle(f, "pragma user_version = 5", NULL);

    assert_int_equal(reopen(f, ROOMY), KILN_OK);

    assert_string_equal(f->notice, "");
    struct kept kept = read_accounting(f, 2);
    assert_int_equal(kept.since, NOW);
    assert_int_equal(kept.count, 1);
    assert_int_equal(kept.rows[0].sums.saved_us, 7);
    struct samples samples = read_history(f, 0, 1);
    assert_int_equal(samples.count, 1);
    assert_int_equal(samples.items[0].values[HISTORY_fetches], 40);
    assert_int_equal(samples.items[0].values[HISTORY_store_bytes], 8000);
}

TEST_F(store, every_history_column_is_read_as_written)
{
    struct kernel_sample sample = { .time = NOW, .span_s = 300 };
    bool written = false;
    for (int i = 0; i < HISTORY_COLUMNS; i++)
        sample.values[i] = 1000 + (uint64_t)i;
    must(kernel_store_history_put(f->store, &sample, 10000, &written, &f->err), f->err);
    struct samples samples = read_history(f, 0, 1);
    assert_int_equal(samples.count, 1);
    assert_int_equal(samples.items[0].span_s, 300);
    for (int i = 0; i < HISTORY_COLUMNS; i++) {
        char sql[100];
        snprintf(sql, sizeof(sql), "select %s from history", kernel_history_names[i]);
        assert_int_equal(samples.items[0].values[i], 1000 + i);
        assert_int_equal(ask(f, sql), 1000 + i);
    }
}

TEST_F(store, the_sum_of_merged_samples_is_clamped)
{
    add_sample(f, 90000, UINT64_MAX, 100);
    add_sample(f, 90300, UINT64_MAX, 100);
    add_sample(f, 90600, UINT64_MAX, 100);
    meddle(f, "update history set span_s = 9223372036854775807", NULL);
    struct samples samples = read_history(f, 0, 3600);
    assert_int_equal(samples.count, 2);
    assert_true(samples.items[1].values[HISTORY_fetches] == KERNEL_SUM_MAX);
    assert_true(samples.items[1].span_s == KERNEL_SUM_MAX);
}

TEST_F(store, merged_samples_add_sums_and_keep_the_last_sizes)
{
    add_sample(f, 90000, 5, 100);
    add_sample(f, 90300, 6, 50);
    add_sample(f, 93601, 7, 70);
    struct samples samples = read_history(f, 0, 3600);
    assert_int_equal(samples.count, 3);
    assert_int_equal(samples.items[0].time, 86400); /* the hour from 86400 ends at 90000 */
    assert_int_equal(samples.items[0].values[HISTORY_fetches], 5);
    assert_int_equal(samples.items[1].time, 90000);
    assert_int_equal(samples.items[1].values[HISTORY_fetches], 6);
    add_sample(f, 93599, 1, 10);
    samples = read_history(f, 90000, 3600);
    assert_int_equal(samples.count, 2);
    assert_int_equal(samples.items[0].values[HISTORY_fetches], 7);
    assert_int_equal(samples.items[0].values[HISTORY_store_bytes], 10);
    assert_int_equal(samples.items[0].span_s, 600);
}

TEST_F(store, samples_that_are_too_old_or_in_the_future_are_deleted)
{
    add_sample(f, 1000, 1, 1);
    add_sample(f, 500000000, 2, 1);
    add_sample(f, 20000, 3, 1); /* before this sample, the clock was wrong */
    struct samples samples = read_history(f, 0, 1);
    assert_int_equal(samples.count, 1);
    assert_int_equal(samples.items[0].values[HISTORY_fetches], 3);
}

struct shares {
    char names[KEPT_MAX][32];
    uint64_t kernels[KEPT_MAX], bytes[KEPT_MAX];
    size_t count;
};

static void keep_share(void *context, const struct kernel_share *share)
{
    struct shares *s = context;
    assert_true(s->count < KEPT_MAX);
    snprintf(s->names[s->count], sizeof(s->names[0]), "%s", share->name ? share->name : "-");
    s->kernels[s->count] = share->kernels;
    s->bytes[s->count++] = share->bytes;
}

static void fill_store(struct fixture *f)
{
    stored(f,
           (struct kernel){ .number = 1, .size = 9000, .program = "conv.cl", .compile_ns = 100 });
    stored(f,
           (struct kernel){ .number = 2, .size = 9000, .program = "conv.cl", .compile_ns = 900 });
    stored(f, (struct kernel){ .number = 3,
                               .size = 3000,
                               .program = "pool.cl",
                               .target = "gfx1030",
                               .compile_ns = 2000 });
    assert_int_equal(import(f, (struct kernel){ .number = 4,
                                                .size = 2000,
                                                .program = "secret.o",
                                                .is_private = true,
                                                .uid = 1001,
                                                .compile_ns = 5000 }),
                     KILN_OK);
}

static void add_up(void *context, uint32_t uid, uint64_t kernels, uint64_t bytes)
{
    (void)uid;
    (void)kernels;
    *(uint64_t *)context += bytes;
}

TEST_F(store, shares_by_program_do_not_reveal_private_names)
{
    struct shares s = { .count = 0 };
    uint64_t all = 0;
    fill_store(f);
    const struct kernel_share_request request = { .by_program = true, .max = 10 };
    must(kernel_store_shares(f->store, &request, keep_share, &s, &f->err), f->err);
    assert_int_equal(s.count, 3);
    assert_string_equal(s.names[0], "conv.cl");
    assert_int_equal(s.kernels[0], 2);
    assert_string_equal(s.names[1], "pool.cl");
    assert_string_equal(s.names[2], "-");
    must(kernel_store_usage_by_uid(f->store, add_up, &all, &f->err), f->err);
    assert_int_equal(s.bytes[0] + s.bytes[1] + s.bytes[2], all);
}

TEST_F(store, shares_by_target_are_reported_largest_first)
{
    struct shares s = { .count = 0 };
    fill_store(f);
    const struct kernel_share_request request = { .by_program = false, .max = 1 };
    must(kernel_store_shares(f->store, &request, keep_share, &s, &f->err), f->err);
    assert_int_equal(s.count, 1);
    assert_string_equal(s.names[0], "gfx90a");
}

static void keep_compile(void *context, const struct kernel_record *record)
{
    struct shares *s = context;
    keep_share(s, &(struct kernel_share){ .name = record->program, .bytes = record->compile_ns });
}

static void find_slowest(struct fixture *f, const uint32_t *uid, size_t max, struct shares *found)
{
    const struct kernel_slowest_request request = { .uid = uid, .max = max };
    must(kernel_store_slowest(f->store, &request, keep_compile, found, &f->err), f->err);
}

TEST_F(store, the_slowest_compiles_include_only_kernels_that_the_user_may_see)
{
    static const uint32_t ann = 1000, bob = 1001;
    struct shares s = { .count = 0 };
    fill_store(f);
    find_slowest(f, &ann, 2, &s);
    assert_int_equal(s.count, 2);
    assert_string_equal(s.names[0], "pool.cl");
    assert_int_equal(s.bytes[1], 900);
    find_slowest(f, &bob, 1, &s);
    assert_string_equal(s.names[2], "secret.o");
    find_slowest(f, NULL, 1, &s);
    assert_string_equal(s.names[3], "secret.o");
}

TEST_F(store, accounting_is_not_written_to_a_store_that_is_off_or_read_only)
{
    static const enum kernel_store_mode modes[] = { KERNEL_STORE_READ_ONLY, KERNEL_STORE_OFF };
    const struct kernel_accounting_row row = user_row(1, 7);
    const struct kernel_accounting accounting = { .rows = &row, .count = 1, .since = NOW };
    const struct kernel_sample sample = { .time = NOW, .span_s = 1 };
    write_rows(f, &row, 1, false);
    for (size_t i = 0; i < 2; i++) {
        bool written = true;
        f->mode = modes[i];
        assert_int_equal(reopen(f, ROOMY), KILN_OK);
        must(kernel_store_accounting_put(f->store, &accounting, &written, &f->err), f->err);
        assert_false(written);
        written = true;
        must(kernel_store_history_put(f->store, &sample, 100, &written, &f->err), f->err);
        assert_false(written);
        assert_int_equal(read_accounting(f, 9).count, modes[i] == KERNEL_STORE_OFF ? 0 : 1);
        assert_int_equal(read_history(f, 0, 1).count, 0);
    }
    f->mode = KERNEL_STORE_ON;
}
