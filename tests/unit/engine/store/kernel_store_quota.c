/* SPDX-License-Identifier: MIT */
/* What one user's kernels may take. */
#include "store_fixture.h"

#include <string.h>

#define ANNA 1001u
#define BERT 1002u
/* Three kernels of SIZE bytes with their rows, and not four. */
#define QUOTA 40000u
#define SIZE 11000u
#define NOW 1700000000ull

static int setup(void **state)
{
    if (fixture_setup(state))
        return -1;
    struct fixture *f = *state;
    f->quota = QUOTA;
    return reopen(f, ROOMY) == KILN_OK ? 0 : -1;
}

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

static void a_put_beyond_the_quota_evicts_that_users_least_worth_kernels_only(void **state)
{
    struct fixture *f = *state;
    stored(f, of(BERT, 1, NOW - 5000)); /* worth less than any of Anna's */
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

static void usage_by_user_follows_every_change(void **state)
{
    struct fixture *f = *state;
    struct digest key = key_of(11);
    struct kernel_filter berts = { .by_uid = true, .uid = BERT };
    uint64_t count = 0, bytes = 0;
    stored(f, of(BERT, 1, NOW));
    stored(f, of(ANNA, 11, NOW));
    stored(f, (struct kernel){ .number = 12, .size = SIZE, .seed = 11, .uid = ANNA });
    assert_int_equal(share_of(f, ANNA).kernels, 2);
    assert_int_equal(share_of(f, ANNA).bytes, 2 * share_of(f, BERT).bytes); /* a shared object */
    assert_int_equal(share_of(f, 0).users, 2);

    stored(f, of(BERT, 12, NOW)); /* somebody else's from now on */
    assert_int_equal(share_of(f, ANNA).kernels, 1);
    assert_int_equal(share_of(f, BERT).kernels, 2);
    assert_int_equal(kernel_store_remove(f->store, &key, &f->err), KILN_OK);
    assert_int_equal(share_of(f, ANNA).kernels, 0);
    assert_int_equal(kernel_store_clear(f->store, &berts, false, &count, &bytes, &f->err), KILN_OK);

    assert_int_equal(count, 2);
    assert_int_equal(share_of(f, 0).users, 0);
}

static void a_second_put_of_the_same_kernel_needs_no_room(void **state)
{
    struct fixture *f = *state;
    for (unsigned i = 11; i <= 13; i++)
        stored(f, of(ANNA, i, NOW));

    assert_int_equal(stored(f, of(ANNA, 12, NOW)), 0);

    assert_int_equal(share_of(f, ANNA).kernels, 3);
}

static void an_import_beyond_the_quota_is_refused_with_what_to_do(void **state)
{
    struct fixture *f = *state;
    for (unsigned i = 11; i <= 13; i++)
        assert_int_equal(import(f, of(ANNA, i, NOW)), KILN_OK);

    assert_int_equal(import(f, of(ANNA, 14, NOW)), KILN_FULL);

    assert_non_null(strstr(f->err.text, "user 1001 has 33.9 KiB of the 39.1 KiB"));
    assert_non_null(strstr(f->err.text, "kilnctl clear --uid 1001"));
    assert_non_null(strstr(f->err.text, "kilnctl gc"));
    assert_int_equal(share_of(f, ANNA).kernels, 3);
    assert_true(holds(f, 11));
    assert_false(holds(f, 14));
    assert_int_equal(import(f, of(BERT, 14, NOW)), KILN_OK);
    assert_int_equal(import(f, of(ANNA, 13, NOW)), KILN_OK); /* in place of itself */
}

static void a_kernel_larger_than_the_quota_is_refused_and_evicts_nothing(void **state)
{
    struct fixture *f = *state;
    stored(f, of(ANNA, 11, NOW));

    assert_int_equal(put(f, (struct kernel){ .number = 12, .size = 50000, .uid = ANNA }),
                     KILN_FULL);

    assert_non_null(strstr(f->err.text, "more than all of it"));
    assert_true(holds(f, 11));
    assert_false(holds(f, 12));
}

static void pinned_kernels_are_not_evicted_for_the_quota(void **state)
{
    struct fixture *f = *state;
    struct kernel k = of(ANNA, 11, NOW - 900);
    k.pinned = true;
    stored(f, k);
    stored(f, of(ANNA, 12, NOW));
    stored(f, of(ANNA, 13, NOW));
    assert_int_equal(stored(f, of(ANNA, 14, NOW)), 1);
    assert_true(holds(f, 11));

    struct kernel_filter all = { 0 };
    uint64_t count = 0;
    assert_int_equal(kernel_store_pin_matching(f->store, &all, true, &count, &f->err), KILN_OK);

    assert_int_equal(put(f, of(ANNA, 15, NOW)), KILN_FULL);
    assert_non_null(strstr(f->err.text, "the rest is pinned"));
    assert_int_equal(share_of(f, ANNA).kernels, 3);
}

static void a_put_that_fails_for_the_quota_keeps_the_older_kernel_of_its_key(void **state)
{
    struct fixture *f = *state;
    stored(f, of(ANNA, 11, NOW));

    assert_int_equal(put(f, (struct kernel){ .number = 11, .size = 50000, .uid = ANNA }),
                     KILN_FULL);

    assert_true(holds(f, 11));
}

static void a_smaller_quota_takes_effect_with_the_next_put(void **state)
{
    struct fixture *f = *state;
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_put_beyond_the_quota_evicts_that_users_least_worth_kernels_only),
        TEST(usage_by_user_follows_every_change),
        TEST(a_second_put_of_the_same_kernel_needs_no_room),
        TEST(an_import_beyond_the_quota_is_refused_with_what_to_do),
        TEST(a_kernel_larger_than_the_quota_is_refused_and_evicts_nothing),
        TEST(pinned_kernels_are_not_evicted_for_the_quota),
        TEST(a_put_that_fails_for_the_quota_keeps_the_older_kernel_of_its_key),
        TEST(a_smaller_quota_takes_effect_with_the_next_put),
    };
    return cmocka_run_group_tests_name("kernel_store_quota", tests, NULL, NULL);
}
