/* SPDX-License-Identifier: MIT */
#include "store_fixture.h"
#include "tests/support/test.h"

#include "engine/store/kernel_store_parts.h"

#include <stdio.h>
#include <string.h>

#define ANNA 1001u
#define BERT 1002u
/* A user's limit. Three kernels of SIZE bytes with their rows fit it, and four do not. */
#define QUOTA 40000u
#define SIZE 11000u
#define NOW 1700000000ull

SET_UP(setup)
{
    open_store(f);
    f->quota = QUOTA;
    must(reopen(f, ROOMY), f->err);
}

FIXTURE(kernel_store_quota, setup, NULL);

static struct kernel of(uint32_t uid, unsigned number, uint64_t last_used)
{
    return (struct kernel){ .number = number, .size = SIZE, .uid = uid, .last_used = last_used };
}

struct share {
    uint32_t uid;
    uint64_t kernels, bytes;
    unsigned users;
};

static void see(void *context, uint32_t uid, uint64_t kernels, uint64_t bytes)
{
    struct share *s = context;
    s->users++;
    if (uid != s->uid)
        return;
    s->kernels = kernels;
    s->bytes = bytes;
}

static struct share share_of(struct fixture *f, uint32_t uid)
{
    struct share s = { .uid = uid };
    assert_int_equal(kernel_store_usage_by_uid(f->store, see, &s, &f->err), KILN_OK);
    return s;
}

TEST_F(kernel_store_quota, a_put_beyond_the_quota_evicts_only_that_users_least_valuable_kernels)
{
    stored(f, of(BERT, 1, NOW - 5000)); /* less valuable than each of Anna's */
    stored(f, of(ANNA, 11, NOW - 100));
    stored(f, of(ANNA, 12, NOW - 300));
    stored(f, of(ANNA, 13, NOW - 200));

    assert_int_equal(stored(f, of(ANNA, 14, NOW)), 1);
    assert_int_equal(stored(f, of(ANNA, 15, NOW)), 1);

    assert_true(holds(f, 1));
    assert_true(holds(f, 11));
    assert_false(holds(f, 12));
    assert_false(holds(f, 13));
    assert_int_equal(share_of(f, ANNA).kernels, 3);
    assert_true(share_of(f, ANNA).bytes <= QUOTA);
}

TEST_F(kernel_store_quota, usage_by_user_follows_every_change)
{
    struct digest key = key_of(11);
    struct kernel_filter berts = { .by_uid = true, .uid = BERT };
    uint64_t count = 0, bytes = 0;
    stored(f, of(BERT, 1, NOW));
    stored(f, of(ANNA, 11, NOW));
    stored(f, (struct kernel){ .number = 12, .size = SIZE, .seed = 11, .uid = ANNA });
    assert_int_equal(share_of(f, ANNA).kernels, 2);
    assert_int_equal(share_of(f, ANNA).bytes,
                     2 * share_of(f, BERT).bytes); /* the object is shared */
    assert_int_equal(share_of(f, 0).users, 2);

    stored(f, of(BERT, 12, NOW));
    assert_int_equal(share_of(f, ANNA).kernels, 1);
    assert_int_equal(share_of(f, BERT).kernels, 2);
    assert_int_equal(kernel_store_remove(f->store, &key, &f->err), KILN_OK);
    assert_int_equal(share_of(f, ANNA).kernels, 0);
    assert_int_equal(kernel_store_clear(f->store, &berts, &count, &bytes, &f->err), KILN_OK);

    assert_int_equal(count, 2);
    assert_int_equal(share_of(f, 0).users, 0);
}

TEST_F(kernel_store_quota, a_second_put_of_the_same_kernel_needs_no_more_quota)
{
    for (unsigned i = 11; i <= 13; i++)
        stored(f, of(ANNA, i, NOW));

    assert_int_equal(stored(f, of(ANNA, 12, NOW)), 0);

    assert_int_equal(share_of(f, ANNA).kernels, 3);
}

TEST_F(kernel_store_quota, an_import_beyond_the_quota_is_refused_with_what_to_do)
{
    for (unsigned i = 11; i <= 13; i++)
        assert_int_equal(import(f, of(ANNA, i, NOW)), KILN_OK);

    assert_int_equal(import(f, of(ANNA, 14, NOW)), KILN_FULL);

    assert_says(f->err.text, "33.9 KiB");
    assert_says(f->err.text, "--uid 1001");
    assert_says(f->err.text, "--own");
    assert_null(strstr(f->err.text, "kilnctl gc"));
    assert_int_equal(share_of(f, ANNA).kernels, 3);
    assert_true(holds(f, 11));
    assert_false(holds(f, 14));
    assert_int_equal(import(f, of(BERT, 14, NOW)), KILN_OK);
    assert_int_equal(import(f, of(ANNA, 13, NOW)), KILN_OK);
}

TEST_F(kernel_store_quota, a_kernel_larger_than_the_quota_is_refused_and_evicts_nothing)
{
    stored(f, of(ANNA, 11, NOW));

    assert_int_equal(put(f, (struct kernel){ .number = 12, .size = 50000, .uid = ANNA }),
                     KILN_FULL);

    assert_says(f->err.text, "more than");
    assert_true(holds(f, 11));
    assert_false(holds(f, 12));
}

TEST_F(kernel_store_quota, pinned_kernels_are_not_evicted_for_the_quota)
{
    struct kernel k = of(ANNA, 11, NOW - 900);
    k.pinned = true;
    stored(f, k);
    stored(f, of(ANNA, 12, NOW));
    stored(f, of(ANNA, 13, NOW));
    assert_int_equal(stored(f, of(ANNA, 14, NOW)), 1);
    assert_true(holds(f, 11));

    struct kernel_filter all = { 0 };
    pin_matching(f, &all, true);

    assert_int_equal(put(f, of(ANNA, 15, NOW)), KILN_FULL);
    assert_says(f->err.text, "pinned");
    assert_int_equal(share_of(f, ANNA).kernels, 3);
}

TEST_F(kernel_store_quota, a_put_that_fails_for_the_quota_keeps_the_older_kernel_of_its_key)
{
    stored(f, of(ANNA, 11, NOW));

    assert_int_equal(put(f, (struct kernel){ .number = 11, .size = 50000, .uid = ANNA }),
                     KILN_FULL);

    assert_true(holds(f, 11));
}

TEST_F(kernel_store_quota, a_smaller_quota_takes_effect_with_the_next_put)
{
    f->quota = 0;
    assert_int_equal(reopen(f, ROOMY), KILN_OK);
    for (unsigned i = 0; i < 20; i++)
        stored(f, of(ANNA, i, NOW + i));
    f->quota = QUOTA;
    assert_int_equal(reopen(f, ROOMY), KILN_OK);

    assert_int_equal(stored(f, of(ANNA, 99, NOW)), 18);

    assert_true(share_of(f, ANNA).bytes <= QUOTA);
    assert_true(holds(f, 99));
}

/* No eviction ends early on a busy machine, because the clock stands still. */
uint64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void) { return 1; }

#define SMALL (2u << 20)
#define LARGE 60000u

static struct kernel large(uint32_t uid, unsigned number, uint64_t last_used, bool is_private)
{
    return (struct kernel){ .number = number,
                            .size = LARGE,
                            .uid = uid,
                            .last_used = last_used,
                            .is_private = is_private };
}

static void fill_with_berts(struct fixture *f)
{
    f->quota = 0;
    assert_int_equal(reopen(f, SMALL), KILN_OK);
    for (unsigned i = 100; stored(f, large(BERT, i, NOW - 9000, false)) == 0; i++)
        assert_true(i < 200);
}

static unsigned import_until_full(struct fixture *f, unsigned first, uint64_t now)
{
    unsigned count = 0;
    while (import(f, large(ANNA, first + count, now, true)) == KILN_OK)
        count++;
    assert_int_equal(f->err.code, KILN_FULL);
    assert_says(f->err.text, "--own");
    assert_says(f->err.text, "--uid 1001");
    return count;
}

TEST_F(kernel_store_quota, a_users_import_evicts_no_kernels_of_other_users)
{
    fill_with_berts(f);
    uint64_t before = share_of(f, BERT).kernels;

    unsigned count = import_until_full(f, 1, NOW);

    assert_int_equal(share_of(f, BERT).kernels, before);
    assert_int_equal(share_of(f, ANNA).kernels, count);
    assert_true(taken(f) <= SMALL);
    assert_true(stored(f, large(ANNA, 99, NOW, false)) > 0);
}

TEST_F(kernel_store_quota, a_user_with_over_half_of_a_full_store_is_evicted_for_others)
{
    f->quota = 0;
    assert_int_equal(reopen(f, SMALL), KILN_OK);
    for (unsigned i = 1; i <= 5; i++)
        stored(f, large(ANNA, i, NOW - 90000, false)); /* less valuable than each of Bert's */
    for (unsigned i = 100; stored(f, large(BERT, i, NOW, false)) == 0; i++)
        assert_true(i < 200);
    uint64_t berts = share_of(f, BERT).kernels;
    assert_true(share_of(f, BERT).bytes > SMALL / 2);

    stored(f, large(ANNA, 6, NOW, false));
    stored(f, large(BERT, 201, NOW, false));

    assert_int_equal(share_of(f, ANNA).kernels, 6);
    /* Eviction leaves 5 % free, which may be enough for one more kernel. */
    assert_in_range(share_of(f, BERT).kernels, 1, berts + 1);
}

TEST_F(kernel_store_quota, a_single_user_may_fill_the_store)
{
    fill_with_berts(f);
    for (unsigned i = 300; i < 340; i++)
        stored(f, large(BERT, i, NOW, false));
    assert_true(share_of(f, BERT).bytes > SMALL / 2);
    assert_in_range(taken(f), SMALL * 3 / 4, SMALL);
    assert_true(holds(f, 339));
    assert_false(holds(f, 100));
}

/* If imports could not replace compiled kernels, a user who fills the cache could not import
 * anything. */
TEST_F(kernel_store_quota, imports_of_the_heaviest_user_replace_kernels_they_compiled)
{
    fill_with_berts(f);

    for (unsigned i = 300; i < 310; i++)
        assert_int_equal(import(f, large(BERT, i, NOW, true)), KILN_OK);

    assert_true(holds(f, 300));
    assert_true(holds(f, 309));
}

TEST_F(kernel_store_quota, an_import_evicts_the_users_earlier_imports_and_not_its_own)
{
    fill_with_berts(f);
    uint64_t before = share_of(f, BERT).kernels;
    unsigned old = import_until_full(f, 1, NOW - 1000);
    assert_true(old > 0);

    unsigned fresh = import_until_full(f, 50, NOW);

    assert_int_equal(fresh, old);
    assert_int_equal(share_of(f, ANNA).kernels, fresh);
    assert_true(holds(f, 50));
    assert_false(holds(f, 1));
    assert_int_equal(share_of(f, BERT).kernels, before);
}

TEST_F(kernel_store_quota, an_import_evicts_no_pinned_kernels_and_none_compiled_for_all)
{
    fill_with_berts(f);
    stored(f, large(ANNA, 99, NOW - 5000, false));
    struct kernel pinned = large(ANNA, 98, NOW - 5000, true);
    pinned.pinned = true;
    stored(f, pinned);

    import_until_full(f, 1, NOW);

    assert_true(holds(f, 99));
    assert_true(holds(f, 98));
}

static bool plan_names(struct fixture *f, enum kernel_statement statement, const char *index)
{
    char sql[1000];
    const char *const explain = sql;
    struct db *db = NULL;
    struct db_options options = { .path = f->file,
                                  .statements = &explain,
                                  .statement_count = 1,
                                  .value_max = 1 << 20,
                                  .cache_kib = 64 };
    bool names = false, row = true;
    snprintf(sql, sizeof(sql), "explain query plan %s", kernel_statements[statement]);
    must(db_open(&options, &db, &f->err), f->err);
    struct query q = query_of(db, 0);
    while (row) {
        must(query_step(&q, &row, &f->err), f->err);
        names |= row && strstr(query_text(&q, 3), index);
        assert_null(row ? strstr(query_text(&q, 3), "TEMP B-TREE") : NULL);
    }
    query_done(&q);
    db_destroy(db);
    return names;
}

/* The time of an import must not depend on the number of the user's public kernels. */
TEST_F(kernel_store_quota, kernels_to_evict_for_an_import_are_found_by_an_index)
{
    assert_true(plan_names(f, KERNEL_EVICT_PRIVATE, "INDEX recency_private (uid=?)"));
    assert_true(plan_names(f, KERNEL_EVICT_OWN, "INDEX recency_of_uid (uid=?)"));
}

TEST_F(kernel_store_quota, a_migration_from_schema_3_marks_private_kernels)
{
    f->quota = 0;
    assert_int_equal(reopen(f, ROOMY), KILN_OK);
    assert_int_equal(import(f, large(ANNA, 1, NOW, true)), KILN_OK);
    stored(f, large(ANNA, 2, NOW, false));
    close_store(f);
    undo_migrations_7_to_9(f);
    meddle(f, "drop index recency_private", NULL);
    meddle(f, "alter table recency drop column scope", NULL);
    static const char *const newer[] = { "accounting_user", "accounting_kind", "accounting",
                                         "history" };
    for (size_t i = 0; i < sizeof(newer) / sizeof(newer[0]); i++) {
        char sql[64];
        snprintf(sql, sizeof(sql), "drop table %s", newer[i]);
        meddle(f, sql, NULL);
    }
    meddle(f, "pragma user_version = 3", NULL);

    assert_int_equal(reopen(f, ROOMY), KILN_OK);

    assert_string_equal(f->notice, "");
    assert_int_equal(ask(f, "select count(*) from recency where scope = 1001"), 1);
    assert_int_equal(ask(f, "select count(*) from recency where scope = -1"), 1);
}

TEST_F(kernel_store_quota, a_wrong_scope_is_repaired)
{
    struct kernel_gc nothing = { 0 };
    struct kernel_gc_result result;
    f->quota = 0;
    assert_int_equal(reopen(f, ROOMY), KILN_OK);
    assert_int_equal(import(f, large(ANNA, 1, NOW, true)), KILN_OK);
    stored(f, large(ANNA, 2, NOW, false));
    meddle(f, "update recency set scope = case scope when -1 then 7 else -1 end", NULL);

    must(kernel_store_gc(f->store, &nothing, &result, &f->err), f->err);

    assert_int_equal(ask(f, "select count(*) from recency where scope = 1001"), 1);
    assert_int_equal(ask(f, "select count(*) from recency where scope = -1"), 1);
}
