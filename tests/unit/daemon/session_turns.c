/* SPDX-License-Identifier: MIT */
/* A session that has many requests handles some of them per loop iteration. Each request takes 0.4
 * ms here. */
#include "common/base/clock.h"
#include "tests/unit/daemon/session_fixture.h"

#include <string.h>
#include <unistd.h>

#define REQUESTS 40u
#define REQUEST_NS 400000u
#define CLIENTS 3u
/* number of requests: more than a session handles per loop iteration, but far fewer than
 * REQUESTS */
#define FEW 8u

static uint64_t skew_ns; /* how far the clock is ahead */
static uint64_t step_ns; /* how far the clock advances when it is read */

uint64_t __real_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void)
{
    skew_ns += step_ns;
    return __real_clock_monotonic_ns() + skew_ns;
}

static void take_time(void) { skew_ns += REQUEST_NS; }

SET_UP(set_up_slow)
{
    open_server(f);
    skew_ns = step_ns = 0;
    service.handling = take_time;
}

FIXTURE(slow_session, set_up_slow, tear_down);

static void send_flood(int fd)
{
    uint8_t raw[REQUESTS * FRAME_HEADER_SIZE];
    size_t size = 0;
    for (uint64_t id = 1; id <= REQUESTS; id++)
        size += put_frame(raw + size, MESSAGE_ping, id, "", 0);
    send_raw(fd, raw, size);
}

static void receive_flood(struct fixture *f)
{
    for (uint64_t id = 1; id <= REQUESTS; id++)
        receive_pong(f, f->client, id);
}

TEST_F(slow_session, a_client_with_many_requests_does_not_delay_another)
{
    int other = join_server(f);
    send_flood(f->client);

    expect_pong(f, other, 99);

    assert_true(service.handled <= FEW);
    receive_flood(f);
    close(other);
}

TEST_F(slow_session, requests_that_wait_for_the_next_turn_are_answered_in_order)
{
    send_flood(f->client);
    receive_flood(f);
    assert_int_equal(service.handled, REQUESTS);
    assert_int_equal(service.in_order, REQUESTS);
}

TEST_F(slow_session, requests_that_wait_for_the_next_turn_are_charged_to_the_user)
{
    const struct account *account = first_session(f)->account;
    send_flood(f->client);
    LOOP_UNTIL(f->loop, service.handled > 0);
    assert_true(account->bytes >= (REQUESTS - FEW) * FRAME_HEADER_SIZE);
    receive_flood(f);
    assert_int_equal(account->bytes, 0);
}

TEST_F(slow_session, a_user_at_the_limit_of_bytes_is_refused)
{
    first_session(f)->account->limit = REQUESTS * FRAME_HEADER_SIZE / 2;
    send_flood(f->client);
    while (service.handled == 0)
        IN_TIME(loop_iteration(f->loop));
    unsigned handled = service.handled;
    for (unsigned id = 1; id <= handled; id++)
        receive_pong(f, f->client, id);
    assert_refused(f, f->client, 0, "limit");
    assert_true(handled <= FEW);
}

TEST_F(slow_session, a_client_that_leaves_takes_its_waiting_requests_with_it)
{
    send_flood(f->client);
    LOOP_UNTIL(f->loop, service.handled > 0);
    unsigned handled = service.handled;
    server_drop_sessions(f->server);
    int other = join_server(f);
    expect_pong(f, other, 99);
    assert_int_equal(service.handled, handled + 1);
    close(other);
}

TEST_F(slow_session, waiting_requests_go_on_when_the_client_reads_its_replies)
{
    service.reply_size = 256u << 10;
    send_flood(f->client);
    LOOP_UNTIL(f->loop, !(first_session(f)->watch.events & WATCH_READ));
    assert_true(service.handled < REQUESTS);
    size_t owed = REQUESTS * (FRAME_HEADER_SIZE + service.reply_size);
    KILN_AUTO(mem) uint8_t *all = malloc(owed);

    assert_int_equal(receive_bytes(f, f->client, all, owed), owed);

    assert_int_equal(service.handled, REQUESTS);
}

TEST_F(slow_session, many_new_connections_are_accepted_in_turns)
{
    int clients[CLIENTS];
    unsigned before = service.joined;
    for (unsigned i = 0; i < CLIENTS; i++)
        clients[i] = connect_to_server(f);
    step_ns = 2 * REQUEST_NS;
    while (service.joined == before)
        IN_TIME(loop_iteration(f->loop));
    step_ns = 0;

    assert_true(service.joined - before < CLIENTS);
    assert_int_equal(f->server->watch.events, 0);
    LOOP_UNTIL(f->loop, service.joined - before == CLIENTS);
    for (unsigned i = 0; i < CLIENTS; i++)
        close(clients[i]);
}
