/* SPDX-License-Identifier: MIT */
#include "common/base/clock.h"
#include "tests/support/test.h"
#include "tests/support/test_buffer.h"
#include "tests/unit/libclient/fake_tuning.h"

#include <math.h>
#include <poll.h>
#include <string.h>

struct fixture {
    struct fake_daemon daemon;
    struct kiln_client *client;
    struct kiln_error err;
    struct kiln_problem problem;
    struct kiln_lease_request request;
    struct kiln_measurement best;
    struct kiln_recording recording;
    struct kiln_lease lease;

    struct message_leased answer;
    unsigned taken; /* number of requests that are answered with TAKEN before one is granted */
    uint16_t type;
    unsigned breaks; /* number of requests that break the connection instead of being answered */

    struct buffer body; /* body of the last request; owned */
    struct message_tuning_lease asked;
    struct message_tuning_report reported;
    atomic_uint asks, reports;
};

/* While |stopped|, the clock only advances when kilnd gets a request for a lease, and a wait for
 * kilnd has no time limit. */
static const struct fixture *_Atomic stopped;
static uint64_t stopped_ns;

uint64_t __real_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void)
{
    static const uint64_t after_ms[] = { 0, 400, 800, 800, 1600 };
    if (!stopped)
        return __real_clock_monotonic_ns();
    unsigned asks = atomic_load(&stopped->asks);
    return stopped_ns + after_ms[asks < 4 ? asks : 4] * 1000000u;
}

WRAP(int, poll, struct pollfd *fds, nfds_t count, int timeout_ms)
{
    return __real_poll(fds, count, stopped && count && timeout_ms ? -1 : timeout_ms);
}

static void stop_clock(const struct fixture *f)
{
    stopped_ns = clock_monotonic_ns();
    stopped = f;
}

static void read_request(struct fixture *f, const struct fake_request *rq)
{
    f->body.size = 0;
    buffer_put(&f->body, rq->body.data, rq->body.size);
    struct reader r = reader_of(buffer_view(&f->body));
    if (rq->header.type == MESSAGE_tuning_lease) {
        f->asked = message_tuning_lease_read(&r);
        f->asks++;
    } else {
        assert_int_equal(rq->header.type, MESSAGE_tuning_report);
        f->reported = message_tuning_report_read(&r);
        f->reports++;
    }
    assert_true(!r.failed && r.at == r.end);
}

static void answer(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    if (rq->header.type == MESSAGE_ping) {
        fake_pong(rq);
        return;
    }
    read_request(f, rq);
    if (f->breaks) {
        f->breaks--;
        fake_hang_up(rq);
        return;
    }
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 10000);
    struct message_leased taken = { .state = LEASE_RESULT_TAKEN };
    message_leased_write(&body, f->taken ? &taken : &f->answer);
    f->taken -= f->taken > 0;
    fake_reply(rq, f->type, 0, buffer_view(&body));
}

SET_UP(set_up)
{
    stopped = NULL;
    *f = (struct fixture){ .problem = public_test_problem(5),
                           .request = { .size = sizeof(f->request),
                                        .database_id = "gfx90a68",
                                        .solver = "Solver",
                                        .candidates = 100 },
                           .best = fake_measurement("Solver"),
                           .recording = fake_recording(&f->best, 1),
                           .lease = { .size = sizeof(f->lease), .state = -1 },
                           .type = MESSAGE_leased,
                           .answer = { .state = LEASE_RESULT_GRANTED,
                                       .lease = 42,
                                       .first = 8,
                                       .count = 4,
                                       .best_ms = fake_real(0.75),
                                       .best_params = bytes_of_text("3,4") } };
    test_buffer(&f->body, LIMIT_FRAME_BODY);
    fake_daemon_serve(&f->daemon, answer, f, &f->client);
}

FIXTURE(lease, set_up, NULL);

static int take(struct fixture *f)
{
    return kiln_lease_take(f->client, &f->problem, &f->request, &f->lease, &f->err);
}

static int report(struct fixture *f)
{
    return kiln_lease_report(f->client, &f->lease, &f->recording, &f->lease, &f->err);
}

static void assert_text(struct bytes text, const char *expected)
{
    if (!bytes_equal_text(text, expected))
        fail_msg("'%.*s' is not '%s'", (int)text.size, (const char *)text.data, expected);
}

TEST(lease, a_granted_lease_names_its_share)
{
    struct fixture *f = *state;

    must(take(f), f->err);

    assert_int_equal(f->lease.state, KILN_LEASE_GRANTED);
    assert_int_equal(f->lease.id, 42);
    assert_int_equal(f->lease.first, 8);
    assert_int_equal(f->lease.count, 4);
    assert_true(f->lease.best_ms == 0.75);
    assert_string_equal(f->lease.best_params, "3,4");
    assert_int_equal(f->asked.problem.n, 5);
    assert_text(f->asked.database_id, "gfx90a68");
    assert_text(f->asked.solver, "Solver");
    assert_int_equal(f->asked.candidates, 100);
    assert_int_equal(f->asked.flags, 0);
    assert_int_equal(f->asked.wait_ms, 0);
}

TEST(lease, a_lease_that_cannot_be_shared_has_no_share)
{
    struct fixture *f = *state;
    f->request.candidates = 0;
    f->answer.first = f->answer.count = 0;
    must(take(f), f->err);
    assert_int_equal(f->lease.state, KILN_LEASE_GRANTED);
    assert_int_equal(f->lease.count, 0);
}

TEST(lease, a_lease_request_without_wait_gets_taken_at_once)
{
    struct fixture *f = *state;
    f->request.share = 1;
    f->taken = 1;
    f->lease.id = 7;

    must(take(f), f->err);

    assert_int_equal(f->lease.state, KILN_LEASE_TAKEN);
    assert_int_equal(f->asked.flags, LEASE_SHARE);
    assert_int_equal(f->asks, 1);
    assert_int_equal(f->lease.id, 7);
}

TEST(lease, a_waiting_lease_request_asks_again_when_a_share_is_free)
{
    struct fixture *f = *state;
    f->request.wait_ms = 10000;
    f->taken = 2;

    must(take(f), f->err);

    assert_int_equal(f->lease.state, KILN_LEASE_GRANTED);
    assert_int_equal(f->asks, 3);
    assert_int_equal(f->asked.flags, LEASE_WAIT);
    assert_true(f->asked.wait_ms > 0 && f->asked.wait_ms < 10000);
}

TEST(lease, waiting_for_a_lease_ends_within_the_time_out)
{
    struct fixture *f = *state;
    f->request.wait_ms = 1000000;
    f->request.timeout_ms = 1000;
    f->taken = UINT32_MAX;
    stop_clock(f);

    must(take(f), f->err);

    assert_int_equal(f->lease.state, KILN_LEASE_TAKEN);
    assert_int_equal(f->asks, 3);
    assert_int_equal(f->asked.wait_ms, 0);
}

TEST(lease, a_lease_for_a_tuned_problem_is_done)
{
    struct fixture *f = *state;
    f->answer.state = LEASE_RESULT_DONE;
    must(take(f), f->err);
    assert_int_equal(f->lease.state, KILN_LEASE_DONE);
}

TEST(lease, a_lease_request_that_a_dying_daemon_left_open_is_sent_again)
{
    struct fixture *f = *state;
    f->breaks = 1;
    must(take(f), f->err);
    assert_int_equal(f->lease.state, KILN_LEASE_GRANTED);
    assert_int_equal(f->asks, 2);
}

static void refused(struct fixture *f, int rc, const char *part)
{
    assert_int_equal(rc, KILN_E_INVALID);
    assert_says(f->err.text, part);
    assert_int_equal(f->daemon.requests, 0);
}

TEST_F(lease, invalid_arguments_are_refused_without_asking_kilnd)
{
    const struct kiln_lease_request good = f->request;
    refused(f, kiln_lease_take(NULL, &f->problem, &f->request, &f->lease, &f->err), "no client");
    refused(f, kiln_lease_take(f->client, &f->problem, &f->request, NULL, &f->err), "pointer");
    f->request.timeout_ms = -1;
    refused(f, take(f), "-1");
    f->request.timeout_ms = 0;
    f->lease.size = 8;
    refused(f, take(f), "size");
    f->lease.size = sizeof(f->lease);
    f->request.wait_ms = -1;
    refused(f, take(f), "wait_ms");
    f->request.wait_ms = 0;
    f->request.solver = "a;b";
    refused(f, take(f), "solver");
    f->request.database_id = NULL;
    refused(f, take(f), "database_id");
    f->request.size = 0;
    refused(f, take(f), "kiln_lease_request.size");
    f->request = good;
    f->problem.n = 0;
    refused(f, take(f), "batchsize");
}

TEST(lease, a_report_gives_the_best_and_gets_the_next_share)
{
    struct fixture *f = *state;
    must(take(f), f->err);
    f->answer.first = 12;

    must(report(f), f->err);

    assert_int_equal(f->lease.state, KILN_LEASE_GRANTED);
    assert_int_equal(f->lease.first, 12);
    assert_int_equal(f->reported.lease, 42);
    assert_int_equal(f->reported.first, 8);
    assert_text(f->reported.params, "1,2");
    assert_true(f->reported.median_ms == fake_real(0.5) &&
                f->reported.spread_ms == fake_real(0.25));
    assert_int_equal(f->reported.samples, 7);
    assert_text(f->reported.device_uuid, "GPU-1");
    assert_text(f->reported.device, "MI210");
    assert_text(f->reported.driver, "6.2.4");
    assert_text(f->reported.toolchain, "clang 17");
    assert_text(f->reported.library, "libkiln " KILN_VERSION);
    assert_int_equal(f->reported.clock_mhz, 1700);
}

TEST(lease, a_share_without_a_result_is_reported_too)
{
    struct fixture *f = *state;
    must(take(f), f->err);
    f->recording.measurement_count = 0;
    f->answer.state = LEASE_RESULT_TAKEN;
    must(report(f), f->err);
    assert_int_equal(f->reported.params.size, 0);
    assert_text(f->reported.device, "MI210");
    assert_int_equal(f->lease.state, KILN_LEASE_TAKEN);

    f->answer.state = LEASE_RESULT_DONE;
    struct kiln_lease next = { .size = sizeof(next) };
    must(kiln_lease_report(f->client, &f->lease, NULL, &next, &f->err), f->err);
    assert_int_equal(f->reported.params.size + f->reported.device.size, 0);
    assert_int_equal(next.state, KILN_LEASE_DONE);
}

TEST_F(lease, an_invalid_report_is_refused)
{
    struct kiln_measurement two[2] = { f->best, f->best };
    refused(f, report(f), "granted");
    must(take(f), f->err);
    f->best.params = NULL;
    assert_int_equal(report(f), KILN_E_INVALID);
    f->recording.measurements = two;
    f->recording.measurement_count = 2;
    assert_int_equal(report(f), KILN_E_INVALID);
    assert_says(f->err.text, "one best");
    f->recording.size = 1;
    assert_int_equal(report(f), KILN_E_INVALID);
    assert_int_equal(f->reports, 0);
}

static void lost(struct fixture *f)
{
    assert_int_equal(report(f), KILN_E_NOT_FOUND);
    assert_says(f->err.text, "connection");
    assert_says(f->err.text, "kiln_perf_get");
}

TEST_F(lease, a_lease_ends_with_its_connection_though_the_next_may_have_one_of_that_number)
{
    must(take(f), f->err);
    fake_daemon_kill(&f->daemon);
    fake_daemon_start(&f->daemon);
    must(kiln_client_ping(f->client, 0, NULL, &f->err), f->err);

    lost(f);

    assert_int_equal(f->reports, 0);
    must(take(f), f->err);
    must(report(f), f->err);
    assert_int_equal(f->reports, 1);
}

TEST_F(lease, a_report_is_not_sent_by_another_connection)
{
    must(take(f), f->err);
    f->breaks = 1;
    lost(f);
    assert_int_equal(f->reports, 1);

    must(take(f), f->err);
    fake_daemon_kill(&f->daemon);
    fake_daemon_start(&f->daemon);
    lost(f);
    assert_int_equal(f->reports, 1);
}

static void not_held(struct fake_request *rq)
{
    fake_reply_error(rq, KILN_NOT_FOUND, "this connection holds no lease 42", NULL);
}

TEST_F(lease, a_lease_that_kilnd_does_not_know_is_lost_as_well)
{
    must(take(f), f->err);
    f->daemon.handle = not_held;
    lost(f);
}

static void nonsense(struct fixture *f, int rc)
{
    static const struct message_leased good = { .state = LEASE_RESULT_GRANTED,
                                                .lease = 42,
                                                .count = 4 };
    assert_int_equal(rc, KILN_E_CORRUPT);
    f->answer = good;
    f->type = MESSAGE_leased;
    must(take(f), f->err);
}

TEST(lease, an_answer_that_makes_no_sense_is_refused)
{
    struct fixture *f = *state;
    static char long_text[1100];
    memset(long_text, 'x', sizeof(long_text));
    const double wrong[] = { -1, INFINITY, NAN };
    f->answer.state = 3;
    nonsense(f, take(f));
    f->answer.first = 97;
    nonsense(f, take(f));
    f->answer.first = UINT32_MAX;
    nonsense(f, take(f));
    f->answer.first = UINT32_MAX;
    nonsense(f, report(f));
    f->answer.best_params = bytes_of(long_text, sizeof(long_text));
    nonsense(f, take(f));
    f->type = MESSAGE_pong;
    nonsense(f, take(f));
    for (size_t i = 0; i < 3; i++) {
        f->answer.best_ms = fake_real(wrong[i]);
        nonsense(f, take(f));
    }
    f->answer.best_params = bytes_of("a\033\0b", 4);
    must(take(f), f->err);
    assert_string_equal(f->lease.best_params, "a  b");
}
