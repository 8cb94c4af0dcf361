/* SPDX-License-Identifier: MIT */
#include "engine/jobs/failure_memory.h"
#include "tests/support/subordinate_ranges.h"
#include "tests/support/test.h"

#include <string.h>

#define SECOND 1000000000u

static const struct kiln_err why = { .code = KILN_COMPILE_FAILED, .text = "it crashed" };

static struct digest numbered(unsigned n)
{
    struct digest d = { { (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16) } };
    return d;
}

#define USER 1000
#define OTHER 1001

static void add(struct failure_memory *m, unsigned n, const char *log, uint64_t now_ns)
{
    const struct digest key = numbered(n);
    const struct failure_report report = {
        .key = &key, .uid = USER, .is_for_all = true, .log = log, .err = why
    };
    failure_memory_add(m, &report, now_ns);
}

static void add_for(struct failure_memory *m, uid_t uid, bool is_for_all)
{
    const struct digest key = numbered(1);
    const struct failure_report report = {
        .key = &key, .uid = uid, .is_for_all = is_for_all, .err = why
    };
    failure_memory_add(m, &report, 0);
}

static bool is_remembered(struct failure_memory *m, uid_t uid)
{
    const struct digest key = numbered(1);
    struct failure f;
    return failure_memory_find(m, &key, uid, 1, &f);
}

TEST(plain, a_failure_keeps_its_message_and_log_until_it_expires)
{
    KILN_AUTO(failure_memory) struct failure_memory *m = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    struct failure f;
    must(failure_memory_create(10, &m, &err), err);
    struct digest key = numbered(1);
    add(m, 1, "line 1", 0);

    assert_true(failure_memory_find(m, &key, USER, 9ull * SECOND, &f));
    assert_string_equal(f.err.text, "it crashed");
    assert_string_equal(f.log, "line 1");
    assert_false(failure_memory_find(m, &key, USER, 10ull * SECOND, &f));
    assert_int_equal(failure_memory_count(m), 0);
}

TEST(plain, an_unknown_key_has_not_failed)
{
    KILN_AUTO(failure_memory) struct failure_memory *m = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    struct failure f;
    must(failure_memory_create(10, &m, &err), err);
    struct digest one = numbered(1), two = numbered(2);
    add(m, 1, NULL, 0);
    assert_false(failure_memory_find(m, &two, USER, 1, &f));
    assert_true(failure_memory_find(m, &one, USER, 1, &f));
    assert_string_equal(f.log, "");
}

TEST(plain, a_life_of_zero_seconds_remembers_nothing)
{
    KILN_AUTO(failure_memory) struct failure_memory *m = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    struct failure f;
    must(failure_memory_create(0, &m, &err), err);
    struct digest key = numbered(1);
    add(m, 1, NULL, 5);
    assert_false(failure_memory_find(m, &key, USER, 5, &f));
}

TEST(plain, forgets_the_oldest_when_it_is_full)
{
    KILN_AUTO(failure_memory) struct failure_memory *m = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    struct failure f;
    must(failure_memory_create(10, &m, &err), err);
    for (unsigned i = 0; i <= FAILURES_MAX; i++)
        add(m, i, "log", i);
    struct digest first = numbered(0), last = numbered(FAILURES_MAX);
    assert_int_equal(failure_memory_count(m), FAILURES_MAX);
    assert_false(failure_memory_find(m, &first, USER, 9000, &f));
    assert_true(failure_memory_find(m, &last, USER, 9000, &f));
}

TEST(plain, the_huge_log_of_a_failed_compile_is_cut)
{
    KILN_AUTO(failure_memory) struct failure_memory *m = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    struct failure f;
    static char log[100000];
    memset(log, 'e', sizeof(log) - 1);
    must(failure_memory_create(10, &m, &err), err);
    struct digest key = numbered(1);
    add(m, 1, log, 0);
    assert_true(failure_memory_find(m, &key, USER, 1, &f));
    assert_int_equal(strlen(f.log), 8192);
}

TEST(plain, a_failure_of_one_users_job_answers_no_other_user)
{
    KILN_AUTO(failure_memory) struct failure_memory *m = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    must(failure_memory_create(10, &m, &err), err);
    add_for(m, USER, /* is_for_all= */ false);
    add_for(m, USER, /* is_for_all= */ false);
    assert_true(is_remembered(m, USER));
    assert_false(is_remembered(m, OTHER));
}

TEST(plain, a_failure_that_a_second_user_saw_answers_everybody)
{
    KILN_AUTO(failure_memory) struct failure_memory *m = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    must(failure_memory_create(10, &m, &err), err);
    add_for(m, USER, /* is_for_all= */ false);
    add_for(m, OTHER, /* is_for_all= */ false);
    assert_true(is_remembered(m, USER));
    assert_true(is_remembered(m, OTHER + 1));
}

TEST(plain, a_second_subordinate_uid_is_not_a_second_user)
{
    KILN_AUTO(failure_memory) struct failure_memory *m = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    set_subordinate_ranges("ann:100000:65536\n");
    must(failure_memory_create(10, &m, &err), err);
    add_for(m, 100000, /* is_for_all= */ false);
    add_for(m, 100001, /* is_for_all= */ false);
    set_subordinate_ranges("");
    assert_false(is_remembered(m, OTHER));
}

TEST(plain, a_source_that_the_compiler_rejected_fails_for_everybody)
{
    KILN_AUTO(failure_memory) struct failure_memory *m = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    must(failure_memory_create(10, &m, &err), err);
    add_for(m, USER, /* is_for_all= */ true);
    assert_true(is_remembered(m, OTHER));
}
