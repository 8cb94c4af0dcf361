/* SPDX-License-Identifier: MIT */
/* A stopping daemon rejects new requests, and the client sends them to the next daemon. */
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/libclient/fake_daemon.h"

#include <string.h>

#define OBJECT "an object"

struct fixture {
    struct fake_daemon daemon;
    struct kiln_client *client;
    struct kiln_error err;
    struct digest keys[2];
    char hex[2][DIGEST_HEX_SIZE];
    unsigned stops;       /* how many of the next requests the daemon rejects */
    unsigned reported[2]; /* number of reports for each of the two keys */
    int codes[2];
};

SET_UP(set_up)
{
    *f = (struct fixture){ .keys = { fake_key(1), fake_key(2) }, .stops = 1 };
    for (size_t i = 0; i < 2; i++)
        digest_to_hex(&f->keys[i], f->hex[i]);
}

FIXTURE(stopping, set_up, NULL);

static void start(struct fixture *f, void (*handle)(struct fake_request *))
{
    fake_daemon_serve(&f->daemon, handle, f, &f->client);
}

/* Closes the connection after the last answer, as kilnd does when it stops. The next connection
 * behaves like one to a restarted daemon. */
static void last_answer(struct fake_request *rq)
{
    rq->daemon->stopping = false;
    fake_hang_up(rq);
}

static bool is_stopping(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    if (!f->stops)
        return false;
    f->stops--;
    rq->daemon->stopping = true;
    return true;
}

static void refuse_or_pong(struct fake_request *rq)
{
    if (!is_stopping(rq)) {
        fake_pong(rq);
        return;
    }
    fake_reply_error(rq, KILN_UNAVAILABLE, "kilnd is stopping", NULL);
    last_answer(rq);
}

/* Answers both keys. If the daemon is stopping, answers only the first key and rejects the last
 * one. */
static void put_off_or_give(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    uint32_t count = rq->header.type == MESSAGE_batch ? 2 : 1;
    bool stopping = is_stopping(rq);
    struct fake_results o = { 0 };
    for (uint32_t i = 0; i < count; i++) {
        struct message_result m = fake_inline_result(i, &f->keys[i], bytes_of_text(OBJECT));
        if (stopping && i == count - 1)
            m = (struct message_result){ .index = i,
                                         .code = KILN_UNAVAILABLE,
                                         .descriptor = NO_DESCRIPTOR,
                                         .text = bytes_of_text("kilnd is stopping") };
        fake_result_add(&o, &m);
    }
    fake_results_reply(&o, rq, 0, NULL, 0);
    if (stopping)
        last_answer(rq);
}

TEST_F(stopping, a_request_that_a_stopping_daemon_refuses_is_asked_of_the_next)
{
    start(f, refuse_or_pong);

    must(kiln_client_ping(f->client, 0, NULL, &f->err), f->err);

    assert_int_equal(f->daemon.requests, 2);
    assert_int_equal(f->daemon.connections, 2);
}

TEST_F(stopping, a_kernel_that_a_stopping_daemon_does_not_make_is_asked_of_the_next)
{
    struct kiln_kernel *kernel = NULL;
    start(f, put_off_or_give);

    must(kiln_kernel_fetch(f->client, f->hex[0], 0, &kernel, &f->err), f->err);

    assert_memory_equal(kiln_kernel_data(kernel), OBJECT, strlen(OBJECT));
    assert_int_equal(f->daemon.requests, 2);
    kiln_kernel_unref(kernel);
}

static int on_ready(void *context, size_t index, struct kiln_kernel *kernel,
                    const struct kiln_error *err)
{
    struct fixture *f = context;
    f->reported[index]++;
    f->codes[index] = err ? err->code : 0;
    assert_true(kernel || err);
    return 0;
}

TEST_F(stopping, each_item_of_a_batch_is_reported_once_although_kilnd_stops)
{
    const char *keys[] = { f->hex[0], f->hex[1] };
    start(f, put_off_or_give);

    const struct kiln_kernel_batch batch = {
        .size = sizeof(batch), .keys = keys, .count = 2, .ready = on_ready, .context = f
    };
    must(kiln_kernel_fetch_batch(f->client, &batch, &f->err), f->err);

    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(f->reported[i], 1);
        assert_int_equal(f->codes[i], 0);
    }
    assert_int_equal(f->daemon.requests, 2);
}

static void refuse(struct fake_request *rq)
{
    fake_reply_error(rq, KILN_UNAVAILABLE, "no toolchain", NULL);
}

TEST_F(stopping, the_same_failure_of_a_daemon_that_goes_on_is_passed_on)
{
    start(f, refuse);
    assert_int_equal(kiln_client_ping(f->client, 0, NULL, &f->err), KILN_E_UNAVAILABLE);
    assert_string_equal(f->err.text, "no toolchain");
    assert_int_equal(f->daemon.requests, 1);
}

TEST_F(stopping, daemons_that_keep_stopping_over_a_request_end_it)
{
    f->stops = 1000;
    start(f, refuse_or_pong);
    assert_int_equal(kiln_client_ping(f->client, 0, NULL, &f->err), KILN_E_UNAVAILABLE);
    assert_says(f->err.text, "32 times");
}

static void answer_once(struct fake_request *rq)
{
    if (rq->daemon->requests == 1)
        fake_pong(rq);
    else if (is_stopping(rq))
        fake_reply_error(rq, KILN_UNAVAILABLE, "kilnd is stopping", NULL);
}

TEST_F(stopping, a_daemon_that_never_stops_stopping_is_a_time_out)
{
    start(f, answer_once);
    must(kiln_client_ping(f->client, 0, NULL, &f->err), f->err); /* the handshake is over */
    assert_int_equal(kiln_client_ping(f->client, WAIT_MS, NULL, &f->err), KILN_E_TIMED_OUT);
    WAIT_FOR(atomic_load(&f->daemon.requests) >= 2);
    assert_int_equal(f->daemon.requests, 2);
}

/* Two threads send a request each. The second request is rejected while the first one is in
 * progress. */
static void finish_the_first_and_put_off_the_second(struct fake_request *rq)
{
    static struct fake_request first;
    static uint8_t body[64];
    if (rq->daemon->requests == 1) {
        first = *rq;
        memcpy(body, rq->body.data, rq->body.size);
        first.body.data = body;
        return;
    }
    if (!is_stopping(rq)) {
        fake_pong(rq);
        return;
    }
    fake_reply_error(rq, KILN_UNAVAILABLE, "kilnd is stopping", NULL);
    fake_pong(&first);
    last_answer(rq);
}

static void *ping_in_a_thread(void *argument)
{
    struct fixture *f = argument;
    return (void *)(intptr_t)kiln_client_ping(f->client, 0, NULL, NULL);
}

TEST_F(stopping, answers_in_progress_are_still_read_from_a_stopping_daemon)
{
    pthread_t threads[2];
    start(f, finish_the_first_and_put_off_the_second);

    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ping_in_a_thread, f), 0);

    for (size_t i = 0; i < 2; i++) {
        void *rc;
        await_thread(threads[i], &rc);
        assert_int_equal((intptr_t)rc, KILN_E_OK);
    }
    assert_int_equal(f->daemon.requests, 3);
    assert_int_equal(f->daemon.connections, 2);
}
