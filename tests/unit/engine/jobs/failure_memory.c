/* SPDX-License-Identifier: MIT */
#include "engine/jobs/failure_memory.h"
#include "tests/support/test.h"

#include <string.h>

#define SECOND 1000000000u

static const struct kiln_err why = { .code = KILN_COMPILE_FAILED, .text = "it crashed" };

static struct digest numbered(unsigned n)
{
    struct digest d = { { (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16) } };
    return d;
}

TEST(plain, a_failure_keeps_its_message_and_log_until_it_expires)
{
    KILN_AUTO(failure_memory) struct failure_memory *m = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    struct failure f;
    must(failure_memory_create(10, &m, &err), err);
    struct digest key = numbered(1);
    failure_memory_add(m, &key, &why, "line 1", 0);

    assert_true(failure_memory_find(m, &key, 9ull * SECOND, &f));
    assert_string_equal(f.err.text, "it crashed");
    assert_string_equal(f.log, "line 1");
    assert_false(failure_memory_find(m, &key, 10ull * SECOND, &f));
    assert_int_equal(failure_memory_count(m), 0);
}

TEST(plain, an_unknown_key_has_not_failed)
{
    KILN_AUTO(failure_memory) struct failure_memory *m = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    struct failure f;
    must(failure_memory_create(10, &m, &err), err);
    struct digest one = numbered(1), two = numbered(2);
    failure_memory_add(m, &one, &why, NULL, 0);
    assert_false(failure_memory_find(m, &two, 1, &f));
    assert_true(failure_memory_find(m, &one, 1, &f));
    assert_string_equal(f.log, "");
}

TEST(plain, a_life_of_zero_seconds_remembers_nothing)
{
    KILN_AUTO(failure_memory) struct failure_memory *m = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    struct failure f;
    must(failure_memory_create(0, &m, &err), err);
    struct digest key = numbered(1);
    failure_memory_add(m, &key, &why, NULL, 5);
    assert_false(failure_memory_find(m, &key, 5, &f));
}

TEST(plain, forgets_the_oldest_when_it_is_full)
{
    KILN_AUTO(failure_memory) struct failure_memory *m = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    struct failure f;
    must(failure_memory_create(10, &m, &err), err);
    for (unsigned i = 0; i <= FAILURES_MAX; i++) {
        struct digest key = numbered(i);
        failure_memory_add(m, &key, &why, "log", i);
    }
    struct digest first = numbered(0), last = numbered(FAILURES_MAX);
    assert_int_equal(failure_memory_count(m), FAILURES_MAX);
    assert_false(failure_memory_find(m, &first, 9000, &f));
    assert_true(failure_memory_find(m, &last, 9000, &f));
}

TEST(plain, a_huge_log_is_cut)
{
    KILN_AUTO(failure_memory) struct failure_memory *m = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    struct failure f;
    static char log[100000];
    memset(log, 'e', sizeof(log) - 1);
    must(failure_memory_create(10, &m, &err), err);
    struct digest key = numbered(1);
    failure_memory_add(m, &key, &why, log, 0);
    assert_true(failure_memory_find(m, &key, 1, &f));
    assert_int_equal(strlen(f.log), 8192);
}
