/* SPDX-License-Identifier: MIT */
#include "common/base/sorted_runs.h"

#include "tests/support/test.h"

#include <stdlib.h>

#define ITEMS 5000u

struct item {
    uint32_t key, number;
};

static int by_key(const void *a, const void *b, void *context)
{
    const struct item *x = a, *y = b;
    (*(unsigned *)context)++;
    int order = (x->key > y->key) - (x->key < y->key);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

struct fixture {
    struct sorted_runs runs;
    unsigned compared;
};

SET_UP(setup)
{
    f->runs = (struct sorted_runs){ .item_size = sizeof(struct item), .compare = by_key };
}

TEAR_DOWN(teardown) { sorted_runs_done(&f->runs); }

FIXTURE(sorted_runs, setup, teardown);

static void add(struct fixture *f, uint32_t key, uint32_t number)
{
    const struct item item = { key, number };
    assert_true(sorted_runs_add(&f->runs, &item));
}

/* Takes all items, which must come in order. Returns their number. */
static unsigned take_all(struct fixture *f)
{
    struct item last = { 0 };
    unsigned count = 0;
    sorted_runs_merge(&f->runs, &f->compared);
    for (const struct item *item; (item = sorted_runs_peek(&f->runs)); count++) {
        assert_true(count == 0 || item->key > last.key ||
                    (item->key == last.key && item->number > last.number));
        last = *item;
        sorted_runs_pop(&f->runs, &f->compared);
    }
    return count;
}

TEST_F(sorted_runs, items_of_many_runs_come_in_order)
{
    uint32_t random = 1;
    for (uint32_t i = 0; i < ITEMS; i++) {
        random = random * 1664525u + 1013904223u;
        /* many items have the same key and differ only in the number |i| */
        add(f, random >> 22, i);
        if (random >> 8 & 1 || i + 1 == ITEMS)
            assert_true(sorted_runs_end_run(&f->runs, &f->compared));
    }
    assert_int_equal(take_all(f), ITEMS);
}

TEST_F(sorted_runs, items_that_come_in_order_are_one_run)
{
    for (uint32_t i = 0; i < ITEMS; i++) {
        add(f, i, i);
        assert_true(sorted_runs_end_run(&f->runs, &f->compared));
    }
    assert_int_equal(f->runs.run_count, 1);
    f->compared = 0;
    assert_int_equal(take_all(f), ITEMS);
    assert_int_equal(f->compared, 0);
}

TEST_F(sorted_runs, without_items_none_comes)
{
    assert_true(sorted_runs_end_run(&f->runs, &f->compared));
    assert_int_equal(take_all(f), 0);
}
