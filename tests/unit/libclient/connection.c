/* SPDX-License-Identifier: MIT */
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "tests/support/child.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/libclient/fake_daemon.h"

#include <string.h>
#include <sys/socket.h>

struct fixture {
    struct fake_daemon daemon;
    struct kiln_client *client;
    struct kiln_error err;
    atomic_uint left; /* counts requests or answers, as each test's handler needs */
};

static void answer_ping(struct fake_request *rq) { fake_pong(rq); }

SET_UP(set_up)
{
    *f = (struct fixture){ .daemon = { .handle = answer_ping } };
    f->daemon.context = f;
}

FIXTURE(connection, set_up, NULL);

static void start(struct fixture *f, void (*handle)(struct fake_request *))
{
    fake_daemon_serve(&f->daemon, handle, f, &f->client);
}

static atomic_uint connects;

WRAP(int, connect, int fd, const struct sockaddr *address, socklen_t size)
{
    connects++;
    return __real_connect(fd, address, size);
}

/* If |stands_at_ns| is not 0, the clock stands still, so that no time limit passes. */
static _Atomic uint64_t stands_at_ns, ahead_ns;

WRAP(uint64_t, clock_monotonic_ns, void)
{
    uint64_t at = stands_at_ns;
    return at ? at : __real_clock_monotonic_ns() + ahead_ns;
}

static int ping(struct fixture *f, int timeout_ms)
{
    return kiln_client_ping(f->client, timeout_ms, NULL, &f->err);
}

static struct kiln_status status(struct fixture *f)
{
    struct kiln_status s = { .size = sizeof(s) };
    must(kiln_client_status(f->client, &s, &f->err), f->err);
    return s;
}

TEST_F(connection, an_absent_daemon_fails_at_once_and_says_how_to_start_one)
{
    fake_daemon_start(&f->daemon);
    fake_daemon_kill(&f->daemon);
    f->client = fake_client(&f->daemon);
    connects = 0;

    assert_int_equal(ping(f, 10000), KILN_E_UNAVAILABLE);

    assert_int_equal(connects, 1);
    assert_says(f->err.text, "--socket /tmp/kiln-test-");
    struct kiln_status s = status(f);
    assert_int_equal(s.level, KILN_LEVEL_NONE);
    assert_string_equal(s.reason, f->err.text);
    assert_int_equal(s.daemon_pid, 0);
    kiln_client_close(KILN_TAKE(f->client));
}

TEST_F(connection, the_status_reports_which_server_answers)
{
    start(f, answer_ping);
    assert_int_equal(status(f).level, KILN_LEVEL_NONE);
    assert_says(status(f).reason, "no request");

    must(ping(f, 0), f->err);

    struct kiln_status s = status(f);
    assert_int_equal(s.level, KILN_LEVEL_DAEMON);
    assert_string_equal(s.socket_path, f->daemon.path);
    assert_string_equal(s.daemon, "fake 9");
    assert_int_equal(s.daemon_pid, 4711);
    assert_int_equal(s.role, 2);
    assert_string_equal(s.reason, "");
    assert_int_equal(s.requests, 1);
    assert_int_equal(s.reconnects, 0);
}

TEST_F(connection, another_protocol_version_is_refused_with_both_named)
{
    f->daemon.version = 9;
    start(f, answer_ping);
    assert_int_equal(ping(f, 0), KILN_E_UNSUPPORTED);
    assert_says(f->err.text, "version 9");
}

TEST_F(connection, the_daemons_refusal_is_passed_on)
{
    f->daemon.refusal = "the client is too old";
    start(f, answer_ping);
    assert_int_equal(ping(f, 0), KILN_E_UNSUPPORTED);
    assert_says(f->err.text, "rejects");
    assert_says(f->err.text, "too old");
}

TEST_F(connection, a_daemon_that_does_not_greet_is_a_time_out)
{
    f->daemon.silent = true;
    start(f, answer_ping);
    assert_int_equal(ping(f, 60), KILN_E_TIMED_OUT);
    assert_says(f->err.text, "hello");
}

TEST_F(connection, a_socket_path_that_is_too_long_is_refused_when_opening)
{
    char path[300];
    memset(path, 'x', sizeof(path));
    path[299] = '\0';
    struct kiln_client_options options = { .size = sizeof(options), .socket_path = path };
    assert_int_equal(kiln_client_open(&options, &f->client, &f->err), KILN_E_INVALID);
    assert_says(f->err.text, "299");
    options = (struct kiln_client_options){ .size = 3 };
    assert_int_equal(kiln_client_open(&options, &f->client, &f->err), KILN_E_INVALID);
    assert_says(f->err.text, "size");
}

/* When the first request has arrived, more time passes than a client waits by default. A short time
 * limit of that request might end during the handshake. */
static void keep_silent(struct fake_request *rq)
{
    (void)rq;
    ahead_ns = (WAIT_MAX_S + 1) * UINT64_C(1000000000);
}

TEST_F(connection, a_silent_daemon_times_out_and_the_status_says_so)
{
    start(f, keep_silent);

    assert_int_equal(ping(f, 0), KILN_E_TIMED_OUT);

    assert_int_equal(status(f).level, KILN_LEVEL_NONE);
    assert_says(status(f).reason, "not answered");
    /* WAIT_MS exceeds READ_SLICE_MS of transport_socket.c */
    uint64_t begin = clock_monotonic_ns();
    assert_int_equal(ping(f, WAIT_MS), KILN_E_TIMED_OUT);
    uint64_t took = clock_monotonic_ns() - begin;
    assert_true(took >= WAIT_MS * 1000000u && took < WAIT_MAX_S * UINT64_C(1000000000));
    WAIT_FOR(atomic_load(&f->daemon.cancels) >= 1);
    fake_daemon_kill(&f->daemon);
    assert_int_equal(f->daemon.connections, 1);
}

static void answer_the_one_before(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    unsigned before = atomic_fetch_add(&f->left, 1);
    if (before == 0) {
        answer_ping(rq);
        return;
    }
    if (before == 1) {
        ahead_ns = 1000000000; /* the request has arrived, and times out now */
        stands_at_ns = 0;
        return;
    }
    struct fake_request late = *rq;
    /* Between the two requests, the cancel message took an id. The id of the cancelled request is
     * therefore lower by two. */
    late.header.request_id--;
    late.header.request_id--;
    fake_reply(&late, MESSAGE_pong, 0, rq->body);
    answer_ping(rq);
}

TEST_F(connection, an_answer_that_comes_too_late_is_dropped)
{
    start(f, answer_the_one_before);
    must(ping(f, 0), f->err); /* the handshake must not time out */
    stands_at_ns = clock_monotonic_ns();
    assert_int_equal(ping(f, 30), KILN_E_TIMED_OUT);
    must(ping(f, 0), f->err);
    assert_int_equal(f->daemon.connections, 1);
}

static void hang_up_first(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    if (f->left) {
        f->left--;
        fake_hang_up(rq);
        return;
    }
    answer_ping(rq);
}

TEST_F(connection, a_request_is_sent_again_when_the_connection_dies)
{
    f->left = 3;
    start(f, hang_up_first);

    must(ping(f, 0), f->err);

    assert_int_equal(f->daemon.requests, 4);
    assert_int_equal(f->daemon.connections, 4);
    assert_int_equal(status(f).reconnects, 3);
    assert_int_equal(status(f).level, KILN_LEVEL_DAEMON);
}

TEST_F(connection, a_request_over_which_the_daemon_keeps_dying_is_given_up)
{
    f->left = 1000;
    start(f, hang_up_first);
    assert_int_equal(ping(f, 0), KILN_E_UNAVAILABLE);
    assert_says(f->err.text, "32 times");
}

static void *ping_in_a_thread(void *argument)
{
    struct fixture *f = argument;
    struct kiln_error err = { .code = 0 };
    kiln_client_ping(f->client, 0, NULL, &err);
    return (void *)(intptr_t)err.code;
}

TEST_F(connection, a_client_that_was_connected_waits_for_the_daemon_to_return)
{
    start(f, answer_ping);
    must(ping(f, 0), f->err);
    fake_daemon_kill(&f->daemon);
    assert_int_equal(ping(f, 30), KILN_E_TIMED_OUT);
    assert_says(f->err.text, "return");
    assert_int_equal(status(f).level, KILN_LEVEL_NONE);

    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ping_in_a_thread, f), 0);
    fake_daemon_start(&f->daemon);
    void *rc;
    await_thread(thread, &rc);

    assert_int_equal((intptr_t)rc, KILN_E_OK);
    assert_int_equal(status(f).level, KILN_LEVEL_DAEMON);
}

static void send_noise(struct fake_request *rq)
{
    static const char noise[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    assert_true(send(rq->peer, noise, sizeof(noise), MSG_NOSIGNAL) > 0);
}

static void send_wrong_id(struct fake_request *rq)
{
    struct fake_request wrong = *rq;
    wrong.header.request_id = 1234567;
    answer_ping(&wrong);
}

static void send_wrong_type(struct fake_request *rq)
{
    fake_reply(rq, MESSAGE_kernels, 0, rq->body);
}

static void send_short_body(struct fake_request *rq)
{
    fake_reply(rq, MESSAGE_pong, 0, bytes_of(rq->body.data, 3));
}

static void announce_too_much(struct fake_request *rq)
{
    struct frame_header h = rq->header;
    h.type = MESSAGE_pong;
    h.descriptors = 2;
    fake_send(rq->peer, &h, rq->body, NULL, 0);
}

static void send_unannounced(struct fake_request *rq)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct frame_header h = rq->header;
    h.type = MESSAGE_pong;
    fake_send(rq->peer, &h, rq->body, ends, 2);
    close(ends[0]);
    close(ends[1]);
}

static void send_error_without_code(struct fake_request *rq)
{
    fake_reply_error(rq, KILN_OK, "fine", NULL);
}

TEST_F(connection, a_damaged_answer_fails_its_request_and_closes_the_connection)
{
    void (*const handlers[])(struct fake_request *) = {
        send_noise,      send_wrong_id,     send_wrong_type,
        send_short_body, announce_too_much, send_unannounced,
    };
    start(f, answer_ping);
    for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {
        fake_daemon_kill(&f->daemon);
        f->daemon.handle = handlers[i];
        f->daemon.connections = 0;
        fake_daemon_start(&f->daemon);

        assert_int_equal(ping(f, 0), KILN_E_CORRUPT);
        assert_int_equal(ping(f, 0), KILN_E_CORRUPT);

        assert_int_equal(f->daemon.connections, 2);
    }
}

static void refuse_the_connection(struct fake_request *rq)
{
    struct fake_request none = *rq;
    none.header.request_id = 0;
    fake_reply_error(&none, KILN_BUSY, "too many files of yours are here", NULL);
    fake_hang_up(rq);
}

TEST_F(connection, the_daemons_last_word_on_a_connection_is_passed_on)
{
    start(f, refuse_the_connection);

    assert_int_equal(ping(f, 0), KILN_E_BUSY);
    assert_says(f->err.text, "too many");

    assert_int_equal(ping(f, 0), KILN_E_BUSY);
    assert_int_equal(f->daemon.connections, 2);
}

TEST_F(connection, a_failure_without_a_code_is_not_believed)
{
    start(f, send_error_without_code);
    assert_int_equal(ping(f, 0), KILN_E_CORRUPT);
    assert_says(f->err.text, "code 0");
}

TEST_F(connection, a_forked_child_is_reported_to_open_its_own_client)
{
    start(f, answer_ping);
    must(ping(f, 0), f->err);

    pid_t child = fork();
    if (child == 0) {
        struct kiln_error err;
        int rc = kiln_client_ping(f->client, 100, NULL, &err);
        bool said = rc == KILN_E_INVALID && strstr(err.text, "before fork");
        kiln_client_close(f->client);
        _exit(said ? 0 : 1);
    }

    assert_int_equal(await_child(child), 0);
    must(ping(f, 0), f->err);
    assert_int_equal(f->daemon.connections, 1);
}

#define THREADS 8
#define PINGS 400

static void *ping_often(void *argument)
{
    struct fixture *f = argument;
    struct kiln_error err = { .code = 0 };
    for (int i = 0; i < PINGS && !err.code; i++)
        kiln_client_ping(f->client, 0, NULL, &err);
    return (void *)(intptr_t)err.code;
}

static void run_threads(struct fixture *f)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ping_often, f), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *rc;
        await_thread(threads[i], &rc);
        assert_int_equal((intptr_t)rc, KILN_E_OK);
    }
}

TEST_F(connection, many_threads_share_one_connection)
{
    start(f, answer_ping);
    run_threads(f);
    assert_int_equal(f->daemon.connections, 1);
    assert_int_equal(f->daemon.requests, THREADS * PINGS);
}

static void hang_up_now_and_then(struct fake_request *rq)
{
    if (rq->daemon->requests % 97 == 0)
        fake_hang_up(rq);
    else
        answer_ping(rq);
}

TEST_F(connection, threads_survive_a_connection_that_keeps_breaking)
{
    start(f, hang_up_now_and_then);
    run_threads(f);
    assert_true(f->daemon.connections > 10);
}

TEST_F(connection, requests_in_flight_stay_within_the_daemons_limit)
{
    f->daemon.max_in_flight = 1;
    start(f, answer_ping);
    run_threads(f);
    assert_int_equal(f->daemon.requests, THREADS * PINGS);
}

static void answer_all_at_the_end(struct fake_request *rq)
{
    static struct fake_request held[THREADS];
    static uint8_t bodies[THREADS][64];
    struct fixture *f = rq->daemon->context;
    unsigned i = f->left++;
    held[i] = *rq;
    memcpy(bodies[i], rq->body.data, rq->body.size);
    held[i].body.data = bodies[i];
    for (unsigned k = THREADS; i + 1 == THREADS && k-- > 0;)
        answer_ping(&held[k]);
}

TEST_F(connection, requests_of_all_threads_are_in_flight_together)
{
    start(f, answer_all_at_the_end);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ping_in_a_thread, f), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *rc;
        await_thread(threads[i], &rc);
        assert_int_equal((intptr_t)rc, KILN_E_OK);
    }
}

static void *ping_briefly(void *argument)
{
    struct fixture *f = argument;
    return (void *)(intptr_t)kiln_client_ping(f->client, 40, NULL, NULL);
}

static void answer_every_second(struct fake_request *rq)
{
    if (rq->daemon->requests % 2)
        answer_ping(rq);
}

TEST_F(connection, a_thread_that_times_out_hands_the_reading_over)
{
    start(f, answer_every_second);
    for (int round = 0; round < 5; round++) {
        pthread_t threads[THREADS];
        for (size_t i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, ping_briefly, f), 0);
        unsigned ok = 0, late = 0;
        for (size_t i = 0; i < THREADS; i++) {
            void *rc;
            await_thread(threads[i], &rc);
            ok += (intptr_t)rc == KILN_E_OK;
            late += (intptr_t)rc == KILN_E_TIMED_OUT;
        }
        assert_int_equal(ok + late, THREADS);
        assert_true(late >= 1);
    }
}
