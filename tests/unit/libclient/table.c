/* SPDX-License-Identifier: MIT */
#include "libclient/kernels/table.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Values that count how often they are referred to. */
struct value {
    int references;
};

static void ref(void *value)
{
    __atomic_add_fetch(&((struct value *)value)->references, 1, __ATOMIC_RELAXED);
}
static void unref(void *value)
{
    __atomic_sub_fetch(&((struct value *)value)->references, 1, __ATOMIC_RELAXED);
}
static const struct table_value_ops ops = { .ref = ref, .unref = unref };

struct fixture {
    struct table *table;
    struct value values[8];
};

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){ 0 };
    struct kiln_err err = KILN_ERR_INIT;
    struct table_options options = { .limit_entries = 3, .limit_bytes = 1 << 20 };
    must(table_create(&options, &f.table, &err), err);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    table_destroy(f->table);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(f->values[i].references, 0);
    return 0;
}

FIXTURE(table, set_up, tear_down);

static struct table_identity of(struct bytes *part, const char *text)
{
    *part = bytes_of_text(text);
    return (struct table_identity){ .kind = TABLE_SOURCE, .parts = part, .count = 1 };
}

static void put(struct fixture *f, const char *text, int value, size_t bytes)
{
    struct bytes part;
    struct table_identity id = of(&part, text);
    table_put(f->table, &id, &f->values[value], &ops, bytes);
}

/* The value's index, -1 for a miss. */
static int get(struct fixture *f, const char *text)
{
    struct bytes part;
    struct table_identity id = of(&part, text);
    struct value *v = table_get(f->table, &id);
    if (!v)
        return -1;
    unref(v);
    return (int)(v - f->values);
}

TEST(table, gives_back_what_was_put_in)
{
    struct fixture *f = *state;
    put(f, "a", 0, 10);
    put(f, "b", 1, 10);

    assert_int_equal(get(f, "a"), 0);
    assert_int_equal(get(f, "b"), 1);
    assert_int_equal(get(f, "c"), -1);
    assert_int_equal(table_hits(f->table), 2);
}

TEST(table, forgets_the_least_recently_used_first)
{
    struct fixture *f = *state;
    put(f, "a", 0, 1);
    put(f, "b", 1, 1);
    put(f, "c", 2, 1);
    assert_int_equal(get(f, "a"), 0);

    put(f, "d", 3, 1);

    assert_int_equal(get(f, "a"), 0);
    assert_int_equal(get(f, "b"), -1);
    assert_int_equal(table_count(f->table), 3);
}

TEST(table, stays_within_its_bytes)
{
    struct fixture *f = *state;
    put(f, "a", 0, 600 << 10);
    put(f, "b", 1, 600 << 10);
    put(f, "too large for the table", 2, 2 << 20);

    assert_int_equal(get(f, "a"), -1);
    assert_int_equal(get(f, "b"), 1);
    assert_int_equal(table_count(f->table), 1);
}

TEST(table, a_newer_answer_replaces_the_older)
{
    struct fixture *f = *state;
    put(f, "a", 0, 1);
    put(f, "a", 1, 1);

    assert_int_equal(get(f, "a"), 1);
    assert_int_equal(f->values[0].references, 0);
    assert_int_equal(table_count(f->table), 1);
}

TEST(table, reports_kinds_and_splits_of_the_same_bytes_apart)
{
    struct fixture *f = *state;
    struct bytes one[] = { bytes_of_text("ab"), bytes_of_text("c") };
    struct bytes two[] = { bytes_of_text("a"), bytes_of_text("bc") };
    struct table_identity a = { .kind = TABLE_KEY, .parts = one, .count = 2 };
    struct table_identity b = { .kind = TABLE_KEY, .parts = two, .count = 2 };
    struct table_identity c = { .kind = TABLE_PLAN, .parts = one, .count = 2 };

    table_put(f->table, &a, &f->values[0], &ops, 1);

    assert_null(table_get(f->table, &b));
    assert_null(table_get(f->table, &c));
}

TEST(table, compares_long_texts_to_the_last_byte)
{
    struct fixture *f = *state;
    char text[5000];
    memset(text, 'x', sizeof(text));
    text[4999] = '\0';
    put(f, text, 0, 1);

    for (size_t i = 0; i < 4999; i += 7) {
        text[i] = 'y';
        assert_int_equal(get(f, text), -1);
        text[i] = 'x';
    }
    assert_int_equal(get(f, text), 0);
}

TEST(table, keeps_nothing_when_reported_to_have_no_room)
{
    struct fixture *f = *state;
    struct kiln_err err = KILN_ERR_INIT;
    table_destroy(f->table);
    must(table_create(&(struct table_options){ 0 }, &f->table, &err), err);

    put(f, "a", 0, 1);

    assert_int_equal(get(f, "a"), -1);
    assert_int_equal(table_count(f->table), 0);
}

static void *hammer(void *argument)
{
    struct fixture *f = argument;
    char text[16];
    for (int i = 0; i < 20000; i++) {
        snprintf(text, sizeof(text), "%d", i % 7);
        if (get(f, text) < 0)
            put(f, text, i % 7, 1);
    }
    return NULL;
}

TEST(table, may_be_used_by_many_threads_at_once)
{
    struct fixture *f = *state;
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, f), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(table_count(f->table), 3);
}

/* ---- forgetting ---- */

static struct table_identity of_two(struct bytes parts[2], enum table_kind kind, const char *first,
                                    const char *second)
{
    parts[0] = bytes_of_text(first);
    parts[1] = bytes_of_text(second);
    return (struct table_identity){ .kind = kind, .parts = parts, .count = 2 };
}

static bool has(struct fixture *f, enum table_kind kind, const char *first, const char *second)
{
    struct bytes parts[2];
    struct table_identity id = of_two(parts, kind, first, second);
    struct value *v = table_get(f->table, &id);
    if (v)
        unref(v);
    return v;
}

static void put_two(struct fixture *f, enum table_kind kind, const char *first, const char *second)
{
    struct bytes parts[2];
    struct table_identity id = of_two(parts, kind, first, second);
    table_put(f->table, &id, &f->values[0], &ops, 10);
}

TEST(table, forgets_what_begins_with_one_part)
{
    struct fixture *f = *state;
    put_two(f, TABLE_PLAN, "a", "1");
    put_two(f, TABLE_PLAN, "ab", "1");
    put_two(f, TABLE_SOURCE, "a", "1");

    table_forget(f->table, TABLE_PLAN, bytes_of_text("a"));

    assert_false(has(f, TABLE_PLAN, "a", "1"));
    assert_true(has(f, TABLE_PLAN, "ab", "1"));
    assert_true(has(f, TABLE_SOURCE, "a", "1"));
    table_forget(f->table, TABLE_PLAN, (struct bytes){ 0 });
    assert_false(has(f, TABLE_PLAN, "ab", "1"));
    assert_true(has(f, TABLE_SOURCE, "a", "1"));
}

TEST(table, an_answer_to_an_older_question_is_not_kept)
{
    struct fixture *f = *state;
    struct bytes parts[2];
    struct table_identity id = of_two(parts, TABLE_PLAN, "a", "1");
    uint64_t before = table_epoch(f->table);
    table_forget(f->table, TABLE_PLAN, bytes_of_text("a"));
    table_put_of_epoch(f->table, before, &id, &f->values[0], &ops, 10);
    assert_false(has(f, TABLE_PLAN, "a", "1"));
    table_put_of_epoch(f->table, table_epoch(f->table), &id, &f->values[0], &ops, 10);
    assert_true(has(f, TABLE_PLAN, "a", "1"));
}
