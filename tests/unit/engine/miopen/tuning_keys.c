/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "engine/miopen/tuning_keys.h"

#include <stdio.h>

#define KEYS 5000u
#define KEY_SIZE 8u

struct fixture {
    struct tuning_keys keys;
    char texts[KEYS][KEY_SIZE + 1];
    struct kiln_err err;
};

SET_UP(set_up)
{
    must(tuning_keys_init(&f->keys, /* expected= */ 0, &f->err), f->err);
    for (unsigned i = 0; i < KEYS; i++)
        snprintf(f->texts[i], sizeof(f->texts[i]), "%08u", i);
}

TEAR_DOWN(tear_down) { tuning_keys_done(&f->keys); }

FIXTURE(tuning_keys, set_up, tear_down);

/* Returns whether the key was known. */
static bool add_key(struct fixture *f, unsigned number)
{
    bool is_known = false;
    must(tuning_keys_add(&f->keys, (const uint8_t *)f->texts, bytes_of(f->texts[number], KEY_SIZE),
                         &is_known, &f->err),
         f->err);
    return is_known;
}

TEST_F(tuning_keys, a_tuning_key_is_known_once_it_was_added_while_the_set_grows)
{
    for (unsigned i = 0; i < KEYS; i++) {
        assert_false(add_key(f, i));
        assert_true(add_key(f, i));
        assert_true(add_key(f, i / 2));
    }
    for (unsigned i = 0; i < KEYS; i++)
        assert_true(add_key(f, i));
    assert_int_equal(f->keys.count, KEYS);
}

/* A set that grows must move its keys. Moving a million keys at once would take longer than a
 * step. */
TEST_F(tuning_keys, a_set_of_tuning_keys_grows_in_small_steps)
{
    const uint64_t before = tuning_keys_bytes(&f->keys);
    unsigned added = 0;
    while (tuning_keys_bytes(&f->keys) == before)
        add_key(f, added++);

    assert_int_equal(tuning_keys_bytes(&f->keys), 3 * before);

    const unsigned grown = added;
    while (tuning_keys_bytes(&f->keys) == 3 * before)
        add_key(f, added++);
    assert_true(added > grown + 100);
    assert_true(added < 2 * grown);
    assert_int_equal(tuning_keys_bytes(&f->keys), 2 * before);
    for (unsigned i = 0; i < added; i++)
        assert_true(add_key(f, i));
}
