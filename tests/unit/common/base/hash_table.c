/* SPDX-License-Identifier: MIT */
#include "common/base/hash_table.h"

#include "tests/support/failing_calls.h"
#include "tests/support/test.h"

#include <errno.h>

#define NUMBERS 1000

struct number {
    int value;
    struct hash_link link; /* not the first member, so that a wrong offset is noticed */
};

struct fixture {
    struct hash_table table;
    struct number numbers[NUMBERS];
};

SET_UP(make_table)
{
    for (int i = 0; i < NUMBERS; i++)
        f->numbers[i].value = i;
}

TEAR_DOWN(destroy_table) { hash_table_done(&f->table); }

FIXTURE(table, make_table, destroy_table);

/* |spread| is the number of different hashes. */
static void add_all(struct fixture *f, uint64_t spread)
{
    for (int i = 0; i < NUMBERS; i++)
        hash_table_add(&f->table, &f->numbers[i].link, (uint64_t)i % spread);
}

static struct number *find_number(struct fixture *f, int value, uint64_t spread)
{
    HASH_EACH (&f->table, (uint64_t)value % spread, struct number, link, n)
        if (n->value == value)
            return n;
    return NULL;
}

TEST_F(table, an_empty_hash_table_finds_nothing)
{
    assert_null(hash_table_first(&f->table, 7));
    assert_null(hash_table_begin(&f->table));
    assert_int_equal(hash_table_bytes(&f->table), 0);
}

TEST_F(table, every_item_is_found_while_the_hash_table_grows)
{
    for (int i = 0; i < NUMBERS; i++) {
        hash_table_add(&f->table, &f->numbers[i].link, (uint64_t)i);
        assert_ptr_equal(find_number(f, 0, NUMBERS), &f->numbers[0]);
        assert_ptr_equal(find_number(f, i, NUMBERS), &f->numbers[i]);
    }
    assert_int_equal(f->table.count, NUMBERS);
    assert_true(f->table.mask >= NUMBERS - 1); /* about one item per bucket */
}

TEST_F(table, hash_table_items_with_the_same_hash_are_all_found)
{
    add_all(f, 3);
    for (int i = 0; i < NUMBERS; i++)
        assert_ptr_equal(find_number(f, i, 3), &f->numbers[i]);
    int seen = 0;
    HASH_EACH (&f->table, 1, struct number, link, n) {
        assert_int_equal(n->value % 3, 1);
        seen++;
    }
    assert_int_equal(seen, 333);
}

TEST_F(table, an_item_removed_from_a_hash_table_is_not_found_and_may_be_removed_again)
{
    add_all(f, 3);
    for (int i = 0; i < NUMBERS; i += 2) {
        hash_table_remove(&f->table, &f->numbers[i].link);
        hash_table_remove(&f->table, &f->numbers[i].link);
    }
    assert_int_equal(f->table.count, NUMBERS / 2);
    for (int i = 0; i < NUMBERS; i++)
        assert_ptr_equal(find_number(f, i, 3), i % 2 ? &f->numbers[i] : NULL);
}

TEST_F(table, hash_table_items_may_be_removed_while_each_is_visited_once)
{
    bool seen[NUMBERS] = { false };
    add_all(f, 77);
    HASH_ALL (&f->table, struct number, link, n) {
        assert_false(seen[n->value]);
        seen[n->value] = true;
        hash_table_remove(&f->table, &n->link);
    }
    assert_int_equal(f->table.count, 0);
    for (int i = 0; i < NUMBERS; i++)
        assert_true(seen[i]);
}

/* Marks the items of the next bucket as seen. None of them may have been seen before. */
static void visit_bucket(const struct fixture *f, size_t *cursor, bool seen[NUMBERS])
{
    for (struct hash_link *link = hash_table_visit(&f->table, cursor); link; link = link->next) {
        const struct number *n = hash_table_item(link, offsetof(struct number, link));
        assert_false(seen[n->value]);
        seen[n->value] = true;
    }
}

TEST_F(table, items_are_visited_once_while_the_hash_table_grows)
{
    const int before = NUMBERS / 10;
    bool seen[NUMBERS] = { false };
    size_t cursor = 0;
    int count = 0;
    for (; count < before; count++)
        hash_table_add(&f->table, &f->numbers[count].link, (uint64_t)count * 0x9e3779b97f4a7c15u);

    do {
        visit_bucket(f, &cursor, seen);
        for (int more = count + 10; count < more && count < NUMBERS; count++)
            hash_table_add(&f->table, &f->numbers[count].link,
                           (uint64_t)count * 0x9e3779b97f4a7c15u);
    } while (cursor > 0);

    assert_int_equal(count, NUMBERS);
    for (int i = 0; i < before; i++)
        assert_true(seen[i]);
}

TEST_F(table, a_visit_of_an_empty_hash_table_is_over_at_once)
{
    size_t cursor = 0;
    assert_null(hash_table_visit(&f->table, &cursor));
    assert_int_equal(cursor, 0);
}

TEST_F(table, a_hash_table_without_memory_for_buckets_still_finds_everything)
{
    fail_calls("calloc", ENOMEM);
    for (int i = 0; i < NUMBERS / 2; i++)
        hash_table_add(&f->table, &f->numbers[i].link, (uint64_t)i);
    assert_int_equal(hash_table_bytes(&f->table), 0);
    assert_ptr_equal(find_number(f, 3, NUMBERS), &f->numbers[3]);
    assert_true(calls_failed());
    for (int i = NUMBERS / 2; i < NUMBERS; i++)
        hash_table_add(&f->table, &f->numbers[i].link, (uint64_t)i);
    assert_int_not_equal(hash_table_bytes(&f->table), 0);
    for (int i = 0; i < NUMBERS; i++)
        assert_ptr_equal(find_number(f, i, NUMBERS), &f->numbers[i]);
}
