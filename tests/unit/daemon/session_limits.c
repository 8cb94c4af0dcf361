/* SPDX-License-Identifier: MIT */
#include "common/base/cleanup.h"
#include "tests/unit/daemon/session_fixture.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_unread(struct fixture *f)
{
    if (!(first_session(f)->watch.events & WATCH_READ))
        return true;
    send_request(f->client, MESSAGE_ping, 1, "");
    return false;
}

/* Sends pings, each of which has a reply of 256 KiB, and reads no reply. Returns when the server
 * reads no more requests. */
static void fill_session(struct fixture *f)
{
    service.reply_size = 256u << 10;
    LOOP_UNTIL(f->loop, is_unread(f));
}

TEST_F(session, a_peer_that_never_reads_is_not_read_and_does_not_block_others)
{
    fill_session(f);
    unsigned handled = service.handled;
    send_request(f->client, MESSAGE_ping, 2, "");
    service.reply_size = 0;

    KILN_AUTO(fd) int other = join_server(f);
    expect_pong(f, other, 9);
    assert_int_equal(service.handled, handled + 1);
}

TEST_F(session, a_peer_that_never_reads_is_closed_after_its_time)
{
    fill_session(f);
    struct session *s = first_session(f);
    s->caller.greeted = true;

    server_check_times(f->server, s->moved_ms + 30000);
    IN_TIME(loop_iteration(f->loop));
    assert_int_equal(server_counts(f->server).clients, 1);
    server_check_times(f->server, s->moved_ms + 30001);
    LOOP_UNTIL(f->loop, service.left != 0);

    assert_int_equal(server_counts(f->server).slow_peers_closed, 1);
    assert_int_equal(server_counts(f->server).clients, 0);
}

TEST_F(session, the_server_reads_again_from_a_peer_that_reads_its_replies)
{
    fill_session(f);
    size_t owed = service.handled * (FRAME_HEADER_SIZE + service.reply_size);
    KILN_AUTO(mem) uint8_t *all = malloc(owed);

    assert_int_equal(receive_bytes(f, f->client, all, owed), owed);
    service.reply_size = 0;
    expect_pong(f, f->client, 77);
}

TEST_F(session, a_peer_that_does_not_finish_its_frame_is_closed)
{
    struct session *s = first_session(f);
    s->caller.greeted = true;
    send_raw(f->client, "KILN", 4);
    LOOP_UNTIL(f->loop, inbox_is_partial(&s->inbox));
    uint64_t began = s->frame_ms;
    send_raw(f->client, "x", 1); /* further bytes of the frame do not extend the time limit */
    IN_TIME(loop_iteration(f->loop));

    server_check_times(f->server, began + 30001);

    assert_true(is_closed(f, f->client));
    assert_int_equal(server_counts(f->server).slow_peers_closed, 1);
}

TEST_F(session, a_peer_that_does_not_say_hello_is_closed)
{
    struct session *s = first_session(f);
    server_check_times(f->server, s->joined_ms + 10001);
    assert_true(is_closed(f, f->client));
    assert_int_equal(server_counts(f->server).slow_peers_closed, 1);
}

TEST_F(session, a_peer_that_said_hello_may_stay_idle)
{
    struct session *s = first_session(f);
    send_request(f->client, MESSAGE_hello, 1, "");
    LOOP_UNTIL(f->loop, s->caller.greeted);
    server_check_times(f->server, s->joined_ms + 86400000);
    expect_pong(f, f->client, 2);
}

TEST_F(session, a_refused_connection_names_the_limit_per_user)
{
    int more[3];
    for (int i = 0; i < 3; i++)
        more[i] = join_server(f);

    KILN_AUTO(fd) int fifth = connect_to_server(f);

    assert_refused(f, fifth, 0, "connections_per_uid");
    assert_true(is_closed(f, fifth));
    assert_int_equal(server_counts(f->server).connections_refused, 1);
    for (int i = 0; i < 3; i++)
        close(more[i]);
}

/* The user has as many sessions as the limit allows. One client connects and leaves at once. If the
 * server opened a session for this connection, it would refuse the session, and count two refusals
 * instead of one. */
TEST_F(session, a_connection_whose_client_has_left_gets_no_session)
{
    int more[4];
    for (int i = 0; i < 3; i++)
        more[i] = join_server(f);

    close(connect_to_server(f));
    more[3] = connect_to_server(f);
    assert_refused(f, more[3], 0, "connections_per_uid");

    assert_int_equal(server_counts(f->server).connections_refused, 1);
    for (int i = 0; i < 4; i++)
        close(more[i]);
}

TEST_F(session, many_users_together_do_not_lock_out_administrators)
{
    const uid_t overflow = f->server->overflow.uid;
    int users[13];
    server_set_limits(f->server, 16, 100);
    f->server->overflow.uid = geteuid(); /* this user is no longer an administrator */
    for (unsigned i = 0; i < 13; i++)
        users[i] = join_server(f);

    KILN_AUTO(fd) int one_more = connect_to_server(f);
    assert_refused(f, one_more, 0, "administrators");

    f->server->overflow.uid = overflow;
    for (unsigned i = 0; i < 2; i++)
        close(join_server(f));
    for (unsigned i = 0; i < 13; i++)
        close(users[i]);
}

TEST_F(session, changed_limits_apply_to_new_connections)
{
    server_set_limits(f->server, 100, 1);
    KILN_AUTO(fd) int second = connect_to_server(f);
    assert_refused(f, second, 0, "connections_per_uid");

    server_set_limits(f->server, 1, 100);
    KILN_AUTO(fd) int third = connect_to_server(f);
    assert_refused(f, third, 0, "connections)");

    server_set_limits(f->server, 100, 100);
    close(join_server(f));
    expect_pong(f, f->client, 1);
}

TEST_F(session, a_user_cannot_hold_more_bytes_than_allowed)
{
    first_session(f)->account->limit = 64u << 10;
    uint8_t raw[FRAME_HEADER_SIZE];
    static const uint8_t zeros[32u << 10];
    const struct frame_header header = { .type = MESSAGE_ping,
                                         .request_id = 5,
                                         .body_size = 1u << 20 };
    frame_header_write(raw, &header);
    send_raw(f->client, raw, sizeof(raw));
    for (unsigned left = service.left, i = 0; i < 3 && service.left == left; i++) {
        send(f->client, zeros, sizeof(zeros), MSG_NOSIGNAL);
        IN_TIME(loop_iteration(f->loop));
    }
    assert_refused(f, f->client, 5, "the limit");
    assert_true(is_closed(f, f->client));
}

TEST_F(session, a_peer_that_disconnects_leaves_the_service)
{
    send_request(f->client, MESSAGE_plan, 1, "");
    LOOP_UNTIL(f->loop, service.waiting);

    shutdown(f->client, SHUT_RDWR);
    LOOP_UNTIL(f->loop, service.left != 0);

    assert_null(service.waiting);
    assert_int_equal(server_counts(f->server).clients, 0);
}

TEST_F(session, draining_answers_pending_requests_and_then_closes)
{
    KILN_AUTO(fd) int idle = join_server(f);
    send_request(f->client, MESSAGE_plan, 8, "");
    LOOP_UNTIL(f->loop, service.waiting);

    server_drain(f->server);

    assert_true(is_closed(f, idle));
    assert_false(server_is_empty(f->server));
    answer_deferred_request();
    char body[4];
    struct frame_header header = receive_header(f, f->client);
    assert_int_equal(header.request_id, 8);
    assert_int_equal(header.flags, FRAME_STOPPING);
    assert_int_equal(receive_bytes(f, f->client, body, 4), 4);
    assert_true(is_closed(f, f->client));
    assert_true(server_is_empty(f->server));
}

/* Linux refuses the next |refusals| messages with descriptors, as if the user had too many
 * descriptors in flight. */
static unsigned refusals;

WRAP(ssize_t, sendmsg, int fd, const struct msghdr *message, int flags)
{
    if (message->msg_controllen == 0 || refusals == 0)
        return __real_sendmsg(fd, message, flags);
    refusals--;
    errno = ETOOMANYREFS;
    return -1;
}

TEST_F(session, a_descriptor_that_the_kernel_cannot_queue_is_sent_later)
{
    refusals = 3;
    send_request(f->client, MESSAGE_fetch, 1, "body");
    send_request(f->client, MESSAGE_ping, 2, "");

    assert_int_equal(receive_header(f, f->client).request_id, 1);
    char body[4];
    assert_int_equal(receive_bytes(f, f->client, body, 4), 4);
    assert_int_equal(receive_header(f, f->client).request_id, 2);

    assert_int_equal(refusals, 0);
    assert_int_equal(service.references, 0);
}

/* number of the next connections for which accept4 fails, as if the process had no free
 * descriptor */
static unsigned no_descriptors;

WRAP(int, accept4, int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    if (no_descriptors == 0)
        return __real_accept4(fd, address, size, flags);
    no_descriptors--;
    errno = EMFILE;
    return -1;
}

TEST_F(session, a_connection_without_a_free_descriptor_is_refused_with_a_reason)
{
    no_descriptors = 1;
    KILN_AUTO(fd) int fd = connect_to_server(f);
    assert_refused(f, fd, 0, "open files");
    assert_true(is_closed(f, fd));
    KILN_AUTO(fd) int next = join_server(f);
    expect_pong(f, next, 3);
}

TEST_F(session, the_spare_descriptor_is_restored_when_descriptors_become_free)
{
    close(f->server->spare_fd);
    /* As if the server had been unable to open the spare descriptor again. */
    f->server->spare_fd = -1;
    KILN_AUTO(fd) int next = join_server(f);
    assert_true(f->server->spare_fd >= 0);
    expect_pong(f, next, 3);
}

static void expect_starvation(struct fixture *f, bool has_client)
{
    /* descriptors 0 to 2 are open */
    const struct rlimit none = { .rlim_cur = 3, .rlim_max = f->descriptors.rlim_max };
    KILN_AUTO(fd) int fd = connect_to_server(f);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    LOOP_UNTIL(f->loop, f->server->starved_ms != 0);
    uint64_t later_ms = loop_now_ms(f->loop) + 5000;
    uint64_t starved_ms = server_starved_ms(f->server, later_ms);
    bool pauses = loop_timer_is_running(&f->server->accept_again);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &f->descriptors), 0);
    if (has_client)
        assert_int_equal(starved_ms, 0);
    else
        assert_true(starved_ms >= 5000);
    assert_true(pauses);
    expect_pong(f, fd, 3);
    assert_int_equal(f->server->starved_ms, 0);
}

TEST_F(session, a_lack_of_descriptors_pauses_accepting_until_one_is_free)
{
    expect_starvation(f, /* has_client= */ true);
}

TEST_F(session, a_server_without_clients_and_descriptors_is_starved)
{
    server_drop_sessions(f->server);
    expect_starvation(f, /* has_client= */ false);
}

TEST_F(session, starvation_counts_from_when_the_last_client_left)
{
    f->server->starved_ms = 1; /* long ago */
    server_drop_sessions(f->server);
    assert_int_equal(server_starved_ms(f->server, loop_now_ms(f->loop)), 0);
}

/* The server must notice the free descriptor although no client connects. */
TEST_F(session, a_server_is_no_longer_starved_when_a_descriptor_is_free)
{
    f->server->starved_ms = 1;
    LOOP_UNTIL(f->loop, f->server->starved_ms == 0);
}
