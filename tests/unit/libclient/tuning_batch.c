/* SPDX-License-Identifier: MIT */
/* Tests of look-ups of many problems, whose requests must keep within the limits. Answers come
 * in several frames. */
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/libclient/fake_tuning.h"

#include <stdio.h>
#include <string.h>

#define PROBLEMS 3000u
#define THREADS 4u

struct fixture {
    struct fake_daemon daemon;
    struct kiln_client *client;
    struct kiln_error err;
    struct kiln_problem problems[PROBLEMS]; /* |n| is 1, 2, ... */
    struct kiln_tuned *tuned[PROBLEMS];
    struct kiln_tuning_options options;

    uint32_t frame_answers; /* number of answers in each frame of a reply */
    uint32_t largest;       /* largest number of problems in a message so far */
    atomic_bool silent;
    atomic_uint damaged; /* value of |n| for which the daemon cannot answer */
    unsigned breaks;     /* number of connections that break after the first frame of an answer */
    bool backwards;
};

/* Every seventh problem has no record. */
static bool is_known(uint32_t n) { return n % 7 != 0; }

static void add_answer(struct fixture *f, struct fake_tuned *t, const struct message_tuning_get *m,
                       uint32_t index)
{
    uint32_t n = fake_tuning_problem(m, index).n;
    char key[32];
    snprintf(key, sizeof(key), "key-%u", n);
    struct message_tuning_answer a = fake_tuning_answer(index, "A:1,2,B;C:3,4,D");
    a.key = bytes_of_text(key);
    if (n == f->damaged)
        a = (struct message_tuning_answer){ .index = index,
                                            .code = KILN_IO,
                                            .text = bytes_of_text("the disk is broken") };
    else if (!is_known(n))
        a = (struct message_tuning_answer){ .index = index, .code = KILN_NOT_FOUND };
    fake_tuned_add(t, &a);
}

static void answer(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    if (atomic_load(&f->silent))
        return;
    struct message_tuning_get m = fake_tuning_question(rq);
    struct fake_tuned t = { 0 };
    f->largest = m.count > f->largest ? m.count : f->largest;
    for (uint32_t i = 0; i < m.count; i++) {
        add_answer(f, &t, &m, f->backwards ? m.count - 1 - i : i);
        bool is_last = i + 1 == m.count;
        if (!is_last && t.count < f->frame_answers)
            continue;
        fake_tuned_reply(&t, rq, is_last ? 0 : FRAME_MORE);
        if (f->breaks && !is_last) {
            f->breaks--;
            fake_hang_up(rq);
            break;
        }
    }
    buffer_done(&t.answers);
}

SET_UP(set_up)
{
    *f = (struct fixture){ .options = { .size = sizeof(f->options), .database_id = "gfx90a68" },
                           .frame_answers = 100 };
    for (uint32_t i = 0; i < PROBLEMS; i++)
        f->problems[i] = public_test_problem(i + 1);
    fake_daemon_serve(&f->daemon, answer, f, &f->client);
}

static void forget(struct fixture *f)
{
    for (uint32_t i = 0; i < PROBLEMS; i++)
        kiln_tuned_free(f->tuned[i]);
    memset(f->tuned, 0, sizeof(f->tuned));
}

TEAR_DOWN(tear_down) { forget(f); }

FIXTURE(tuning_batch, set_up, tear_down);

static struct kiln_tuning_batch batch_of(const struct fixture *f, size_t count)
{
    return (struct kiln_tuning_batch){ .size = sizeof(struct kiln_tuning_batch),
                                       .problems = f->problems,
                                       .count = count,
                                       .options = &f->options };
}

static int get(struct fixture *f, size_t count)
{
    const struct kiln_tuning_batch batch = batch_of(f, count);
    forget(f);
    return kiln_find_get_batch(f->client, &batch, f->tuned, &f->err);
}

static bool is_right(const struct kiln_tuned *tuned, uint32_t n)
{
    char key[32];
    snprintf(key, sizeof(key), "key-%u", n);
    if (!is_known(n))
        return tuned == NULL;
    return tuned && strcmp(kiln_tuned_key(tuned), key) == 0 && kiln_tuned_count(tuned) == 2;
}

static void expect_all(const struct fixture *f, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!is_right(f->tuned[i], i + 1))
            fail_msg("problem %u has another's answer", i);
    }
}

static void expect_none(const struct fixture *f)
{
    for (uint32_t i = 0; i < PROBLEMS; i++)
        assert_null(f->tuned[i]);
}

TEST_F(tuning_batch, each_problem_gets_its_own_answer_or_none)
{
    must(get(f, PROBLEMS), f->err);
    expect_all(f, PROBLEMS);
    assert_true(f->largest < PROBLEMS);
    must(get(f, 1), f->err);
    expect_all(f, 1);
}

TEST_F(tuning_batch, the_order_and_number_of_frames_do_not_matter)
{
    f->backwards = true;
    f->frame_answers = 1;
    must(get(f, PROBLEMS), f->err);
    expect_all(f, PROBLEMS);
    f->frame_answers = PROBLEMS;
    must(get(f, PROBLEMS), f->err);
    expect_all(f, PROBLEMS);
}

TEST_F(tuning_batch, an_empty_batch_of_look_ups_sends_nothing)
{
    struct kiln_tuning_batch batch = batch_of(f, 0);
    batch.problems = NULL;
    must(kiln_perf_get_batch(f->client, &batch, NULL, &f->err), f->err);
    assert_int_equal(f->daemon.requests, 0);
}

TEST_F(tuning_batch, a_batch_of_look_ups_stays_within_the_daemons_limit)
{
    kiln_client_close(f->client);
    fake_daemon_kill(&f->daemon);
    f->daemon.max_in_flight = 1;
    fake_daemon_start(&f->daemon);
    f->client = fake_client(&f->daemon);
    must(get(f, PROBLEMS), f->err);
    expect_all(f, PROBLEMS);
}

TEST_F(tuning_batch, look_ups_left_open_by_a_lost_connection_are_repeated)
{
    f->breaks = 3;
    must(get(f, PROBLEMS), f->err);
    expect_all(f, PROBLEMS);
    assert_int_equal(f->breaks, 0);
    assert_true(f->daemon.connections >= 2);
}

TEST_F(tuning_batch, a_wrong_problem_fails_its_batch_and_is_named)
{
    f->problems[2500].groups = 3;

    assert_int_equal(get(f, PROBLEMS), KILN_E_INVALID);

    assert_says(f->err.text, "problem 2500");
    assert_says(f->err.text, "group_count");
    expect_none(f);
}

TEST_F(tuning_batch, a_problem_that_kilnd_cannot_answer_fails_the_batch_with_its_reason)
{
    f->damaged = 1501;

    assert_int_equal(get(f, PROBLEMS), KILN_E_IO);

    assert_string_equal(f->err.text, "the disk is broken");
    expect_none(f);
    f->damaged = 0;
    must(get(f, PROBLEMS), f->err);
    assert_int_equal(f->daemon.connections, 1);
}

static void lie(struct fake_request *rq)
{
    struct message_tuning_get m = fake_tuning_question(rq);
    struct fixture *f = rq->daemon->context;
    struct fake_tuned t = { 0 };
    /* Answers the second problem twice, and the first one never. */
    for (uint32_t i = 0; i < m.count; i++)
        add_answer(f, &t, &m, i ? i : 1);
    fake_tuned_reply(&t, rq, 0);
    buffer_done(&t.answers);
}

TEST_F(tuning_batch, an_answer_reported_twice_fails_all)
{
    f->daemon.handle = lie;
    assert_int_equal(get(f, 500), KILN_E_CORRUPT);
    assert_says(f->err.text, "twice");
    expect_none(f);
}

TEST_F(tuning_batch, look_ups_of_a_batch_that_are_late_are_cancelled)
{
    must(get(f, 1), f->err); /* the handshake must not time out */
    atomic_store(&f->silent, true);
    f->options.timeout_ms = WAIT_MS;
    assert_int_equal(get(f, 600), KILN_E_TIMED_OUT);
    expect_none(f);
    f->options.timeout_ms = 0;
    atomic_store(&f->silent, false);
    must(get(f, 1), f->err);
    assert_int_equal(f->daemon.cancels, 3);
}

TEST_F(tuning_batch, invalid_arguments_are_refused_without_asking_kilnd)
{
    struct kiln_tuning_batch batch = batch_of(f, 1);
    assert_int_equal(kiln_perf_get_batch(f->client, &batch, NULL, &f->err), KILN_E_INVALID);
    assert_int_equal(kiln_perf_get_batch(f->client, NULL, f->tuned, &f->err), KILN_E_INVALID);
    batch.problems = NULL;
    assert_int_equal(kiln_find_get_batch(f->client, &batch, f->tuned, &f->err), KILN_E_INVALID);
    batch = batch_of(f, 1);
    batch.size = 0;
    assert_int_equal(kiln_find_get_batch(f->client, &batch, f->tuned, &f->err), KILN_E_INVALID);
    f->problems[0].size = SIZE_MAX;
    assert_int_equal(get(f, 1), KILN_E_INVALID);
    f->options.database_id = NULL;
    f->problems[0].size = sizeof(f->problems[0]);
    assert_int_equal(get(f, 1), KILN_E_INVALID);
    assert_int_equal(f->daemon.requests, 0);
}

static void *ask_all(void *argument)
{
    const struct fixture *f = argument;
    KILN_AUTO(mem) struct kiln_tuned **tuned = calloc(PROBLEMS, sizeof(struct kiln_tuned *));
    struct kiln_error err;
    size_t wrong = 0;
    const struct kiln_tuning_batch batch = batch_of(f, PROBLEMS);
    int rc = kiln_find_get_batch(f->client, &batch, tuned, &err);
    for (uint32_t i = 0; i < PROBLEMS; i++) {
        wrong += rc || !is_right(tuned[i], i + 1);
        kiln_tuned_free(tuned[i]);
    }
    return (void *)wrong; /* NOLINT(performance-no-int-to-ptr) */
}

TEST_F(tuning_batch, threads_share_a_client)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_all, f), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *wrong;
        await_thread(threads[i], &wrong);
        assert_null(wrong);
    }
    assert_int_equal(f->daemon.connections, 1);
}
