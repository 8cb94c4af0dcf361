/* SPDX-License-Identifier: MIT */
#include "libclient/kernels/answer_cache.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

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
static const struct answer_ops ops = { .ref = ref, .unref = unref };

struct fixture {
    struct answer_cache *cache;
    struct value values[8];
};

SET_UP(set_up)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct answer_cache_options options = { .limit_entries = 3, .limit_bytes = 1 << 20 };
    must(answer_cache_create(&options, &f->cache, &err), err);
}

TEAR_DOWN(tear_down)
{
    answer_cache_destroy(f->cache);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(f->values[i].references, 0);
}

FIXTURE(answer_cache, set_up, tear_down);

static struct answer_identity of(struct bytes *part, const char *text)
{
    *part = bytes_of_text(text);
    return (struct answer_identity){ .kind = ANSWER_SOURCE, .parts = part, .count = 1 };
}

static void put(struct fixture *f, const char *text, int value, size_t bytes)
{
    struct bytes part;
    struct answer_identity id = of(&part, text);
    answer_cache_put(f->cache, &id, &(struct answer){ &f->values[value], &ops, bytes });
}

static int get(struct fixture *f, const char *text)
{
    struct bytes part;
    struct answer_identity id = of(&part, text);
    struct value *v = answer_cache_get(f->cache, &id);
    if (!v)
        return -1;
    unref(v);
    return (int)(v - f->values);
}

TEST_F(answer_cache, the_cache_returns_what_was_put_in)
{
    put(f, "a", 0, 10);
    put(f, "b", 1, 10);

    assert_int_equal(get(f, "a"), 0);
    assert_int_equal(get(f, "b"), 1);
    assert_int_equal(get(f, "c"), -1);
    assert_int_equal(answer_cache_hits(f->cache), 2);
}

TEST_F(answer_cache, the_cache_evicts_the_least_recently_used_answer)
{
    put(f, "a", 0, 1);
    put(f, "b", 1, 1);
    put(f, "c", 2, 1);
    assert_int_equal(get(f, "a"), 0);

    put(f, "d", 3, 1);

    assert_int_equal(get(f, "a"), 0);
    assert_int_equal(get(f, "b"), -1);
    assert_int_equal(answer_cache_count(f->cache), 3);
}

TEST_F(answer_cache, the_cache_stays_within_its_bytes)
{
    put(f, "a", 0, 600 << 10);
    put(f, "b", 1, 600 << 10);
    put(f, "too large for the table", 2, 2 << 20);

    assert_int_equal(get(f, "a"), -1);
    assert_int_equal(get(f, "b"), 1);
    assert_int_equal(answer_cache_count(f->cache), 1);
}

TEST_F(answer_cache, a_newer_answer_replaces_the_older_one)
{
    put(f, "a", 0, 1);
    put(f, "a", 1, 1);

    assert_int_equal(get(f, "a"), 1);
    assert_int_equal(f->values[0].references, 0);
    assert_int_equal(answer_cache_count(f->cache), 1);
}

TEST_F(answer_cache, identities_with_the_same_bytes_differ_by_kind_and_parts)
{
    struct bytes one[] = { bytes_of_text("ab"), bytes_of_text("c") };
    struct bytes two[] = { bytes_of_text("a"), bytes_of_text("bc") };
    struct answer_identity a = { .kind = ANSWER_KEY, .parts = one, .count = 2 };
    struct answer_identity b = { .kind = ANSWER_KEY, .parts = two, .count = 2 };
    struct answer_identity c = { .kind = ANSWER_PLAN, .parts = one, .count = 2 };

    answer_cache_put(f->cache, &a, &(struct answer){ &f->values[0], &ops, 1 });

    assert_null(answer_cache_get(f->cache, &b));
    assert_null(answer_cache_get(f->cache, &c));
}

TEST_F(answer_cache, long_identities_are_compared_to_the_last_byte)
{
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

TEST_F(answer_cache, a_cache_of_no_entries_stores_nothing)
{
    struct kiln_err err = KILN_ERR_INIT;
    answer_cache_destroy(f->cache);
    must(answer_cache_create(&(struct answer_cache_options){ 0 }, &f->cache, &err), err);

    put(f, "a", 0, 1);

    assert_int_equal(get(f, "a"), -1);
    assert_int_equal(answer_cache_count(f->cache), 0);
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

TEST_F(answer_cache, many_threads_may_use_the_cache_at_once)
{
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, f), 0);
    for (size_t i = 0; i < 4; i++)
        await_thread(threads[i], NULL);
    assert_int_equal(answer_cache_count(f->cache), 3);
}

static struct answer_identity of_two(struct bytes parts[2], enum answer_kind kind,
                                     const char *first, const char *second)
{
    parts[0] = bytes_of_text(first);
    parts[1] = bytes_of_text(second);
    return (struct answer_identity){ .kind = kind, .parts = parts, .count = 2 };
}

static bool has(struct fixture *f, enum answer_kind kind, const char *first, const char *second)
{
    struct bytes parts[2];
    struct answer_identity id = of_two(parts, kind, first, second);
    struct value *v = answer_cache_get(f->cache, &id);
    if (v)
        unref(v);
    return v;
}

static void put_two(struct fixture *f, enum answer_kind kind, const char *first, const char *second)
{
    struct bytes parts[2];
    struct answer_identity id = of_two(parts, kind, first, second);
    answer_cache_put(f->cache, &id, &(struct answer){ &f->values[0], &ops, 10 });
}

TEST_F(answer_cache, forgetting_drops_the_identities_that_begin_with_a_part)
{
    put_two(f, ANSWER_PLAN, "a", "1");
    put_two(f, ANSWER_PLAN, "ab", "1");
    put_two(f, ANSWER_SOURCE, "a", "1");

    answer_cache_forget(f->cache, ANSWER_PLAN, bytes_of_text("a"));

    assert_false(has(f, ANSWER_PLAN, "a", "1"));
    assert_true(has(f, ANSWER_PLAN, "ab", "1"));
    assert_true(has(f, ANSWER_SOURCE, "a", "1"));
    answer_cache_forget(f->cache, ANSWER_PLAN, (struct bytes){ 0 });
    assert_false(has(f, ANSWER_PLAN, "ab", "1"));
    assert_true(has(f, ANSWER_SOURCE, "a", "1"));
}

TEST_F(answer_cache, an_answer_to_an_older_question_is_not_kept)
{
    struct bytes parts[2];
    struct answer_identity id = of_two(parts, ANSWER_PLAN, "a", "1");
    uint64_t before = answer_cache_epoch(f->cache);
    answer_cache_forget(f->cache, ANSWER_PLAN, bytes_of_text("a"));
    answer_cache_put_of_epoch(f->cache, before, &id, &(struct answer){ &f->values[0], &ops, 10 });
    assert_false(has(f, ANSWER_PLAN, "a", "1"));
    answer_cache_put_of_epoch(f->cache, answer_cache_epoch(f->cache), &id,
                              &(struct answer){ &f->values[0], &ops, 10 });
    assert_true(has(f, ANSWER_PLAN, "a", "1"));
}
