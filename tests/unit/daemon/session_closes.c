/* SPDX-License-Identifier: MIT */
/* In these tests, closing a descriptor hangs, as on a filesystem whose server is gone. Only the
 * user who sent the descriptor may be affected. */
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "tests/unit/daemon/session_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define OTHER_USER 4321
#define TOO_MANY "files of"
/* If a user holds more descriptors than this, the closer reports the user as full. */
#define FULL (CLOSER_LIMITS_DEFAULT.held_max_uid - LIMIT_FRAME_DESCRIPTORS)
#define ALL 10000 /* more than the number of closes in any test */

static struct {
    pthread_t loop_thread;
    atomic_ulong inode; /* inode of the files whose close hangs */
    atomic_uint on_the_loop, hanging, closed;
    sem_t gate;
} hung;

static bool is_hung(int fd)
{
    struct stat seen;
    ino_t inode = hung.inode;
    return inode && fstat(fd, &seen) == 0 && seen.st_ino == inode;
}

WRAP(int, close, int fd)
{
    if (is_hung(fd) && pthread_equal(pthread_self(), hung.loop_thread)) {
        hung.on_the_loop++;
    } else if (is_hung(fd)) {
        hung.hanging++;
        WAIT_FOR(sem_trywait(&hung.gate) == 0);
        hung.closed++;
    }
    return __real_close(fd);
}

static atomic_ullong hours_passed;

WRAP(uint64_t, clock_monotonic_ns, void)
{
    return __real_clock_monotonic_ns() + hours_passed * 3600 * 1000000000u;
}

static void end_closes(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        sem_post(&hung.gate);
}

SET_UP(set_up_hung)
{
    memset(&hung, 0, sizeof(hung));
    sem_init(&hung.gate, 0, 0);
    hours_passed = 0;
    hung.loop_thread = pthread_self();
    open_server(f);
}

TEAR_DOWN(tear_down_hung)
{
    end_closes(ALL);
    close_server(f);
    /* threads of the closer may still run after the closer is destroyed */
    WAIT_FOR(hung.closed == hung.hanging);
}

FIXTURE(hung, set_up_hung, tear_down_hung);

static int make_hung_file(void)
{
    struct stat seen;
    int fd = memfd_create("hung", MFD_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &seen) == 0);
    hung.inode = seen.st_ino;
    return fd;
}

static int join_server_as(struct fixture *f, uid_t uid)
{
    assert_int_equal(chmod(f->directory, 0711) | chmod(f->path, 0666), 0);
    assert_int_equal(seteuid(uid), 0);
    int fd = join_server(f);
    assert_int_equal(seteuid(0), 0);
    return fd;
}

static void send_hung(int client, uint64_t id, int file)
{
    uint8_t raw[128];
    int files[LIMIT_REQUEST_FILES] = { file, file };
    size_t size = put_install_frame(raw, id, "{}", 2);
    send_files(client, raw, size, files, 2);
}

/* Sends requests with two descriptors each, until the user holds too many. Returns the number of
 * descriptors. */
static unsigned fill_by_requests(struct fixture *f, int file)
{
    unsigned requests = FULL / 2 + 1;
    for (uint64_t id = 1; id <= requests; id++) {
        send_hung(f->client, id, file);
        receive_pong(f, f->client, id);
    }
    return 2 * requests;
}

static void drop_hung_file(int file)
{
    hung.inode = 0;
    __real_close(file);
}

TEST_F(hung, a_close_that_hangs_blocks_no_request)
{
    int file = make_hung_file();
    KILN_AUTO(fd) int other = join_server(f);

    send_hung(f->client, 1, file);
    receive_pong(f, f->client, 1);
    WAIT_FOR(hung.hanging != 0);
    expect_pong(f, other, 2);
    expect_pong(f, f->client, 3);

    assert_int_equal(hung.hanging, 1);
    assert_int_equal(hung.on_the_loop, 0);
    end_closes(2);
    WAIT_FOR(hung.closed >= 2);
    drop_hung_file(file);
}

TEST_F(hung, a_user_who_sends_too_many_descriptors_is_refused_and_others_are_not)
{
    NEED_ROOT();
    int file = make_hung_file();
    KILN_AUTO(fd) int other = join_server_as(f, OTHER_USER);

    unsigned sent = fill_by_requests(f, file);
    WAIT_FOR(hung.hanging != 0);
    send_hung(f->client, 1000, file);
    assert_refused(f, f->client, 0, TOO_MANY);
    assert_true(is_closed(f, f->client));
    KILN_AUTO(fd) int again = connect_to_server(f);
    assert_refused(f, again, 0, TOO_MANY);
    expect_pong(f, other, 7);
    send_hung(other, 8, file);
    receive_pong(f, other, 8);
    WAIT_FOR(hung.hanging >= 2);

    assert_int_equal(hung.on_the_loop, 0);
    end_closes(ALL);
    WAIT_FOR(hung.closed >= sent + 2);
    /* the closer still counts the last file for a moment after close(2) */
    WAIT_FOR(!closer_is_full(f->closer, 0));
    KILN_AUTO(fd) int later = join_server(f);
    expect_pong(f, later, 9);
    drop_hung_file(file);
}

static const struct session *last_session(const struct fixture *f)
{
    return LIST_LAST(&f->server->sessions, struct session, link);
}

/* Each close takes long, but ends. Only then does the server answer the waiting request and the new
 * connection. */
TEST_F(hung, a_user_waits_while_many_of_their_descriptors_are_being_closed)
{
    int file = make_hung_file();
    f->server->limits.full_ms = 1000000;
    fill_by_requests(f, file);
    service.handled = 0;
    send_request(f->client, MESSAGE_ping, 1000, "");
    KILN_AUTO(fd) int other = connect_to_server(f);
    LOOP_UNTIL(f->loop, first_session(f)->is_barred || last_session(f)->is_barred);
    assert_int_equal(service.handled, 0);

    end_closes(ALL);
    receive_pong(f, f->client, 1000);
    expect_pong(f, other, 1001);
    assert_int_equal(server_counts(f->server).protocol_errors, 0);
    drop_hung_file(file);
}

/* Gives files to the closer until the user is full. Returns the number of files. */
static unsigned fill_closer(struct fixture *f, int file)
{
    unsigned count = 0;
    for (; !closer_is_full(f->closer, 0); count++) {
        closer_charge(f->closer, 0, 1);
        closer_take(f->closer, 0, fcntl(file, F_DUPFD_CLOEXEC, 3));
    }
    return count;
}

/* For a while, the user is below the limit, but nobody calls closer_check during that time. The
 * closer must notice it nevertheless. */
TEST_F(hung, a_user_who_was_not_full_in_between_is_not_stuck)
{
    const uint64_t grace_ms = 600000;
    int file = make_hung_file();
    unsigned taken = fill_closer(f, file);
    assert_int_equal(closer_check(f->closer, 0, grace_ms), CLOSER_IS_FULL);
    end_closes(ALL);
    WAIT_FOR(!closer_is_full(f->closer, 0));
    unsigned ended = ALL;
    while (sem_trywait(&hung.gate) == 0)
        ended--;
    hours_passed = 1;
    taken += fill_closer(f, file);
    /* When a further close hangs, the closer no longer counts the files whose closes have ended. */
    WAIT_FOR(hung.closed == ended && hung.hanging == ended + 1);
    taken += fill_closer(f, file);
    assert_int_equal(closer_check(f->closer, 0, grace_ms), CLOSER_IS_FULL);
    hours_passed = 2;
    assert_int_equal(closer_check(f->closer, 0, grace_ms), CLOSER_IS_STUCK);
    end_closes(ALL);
    WAIT_FOR(hung.closed >= taken);
    drop_hung_file(file);
}

/* Many connections send descriptors with a frame that they never complete. Then all connections
 * end at once. */
TEST_F(hung, descriptors_of_unfinished_frames_count_and_are_not_closed_on_the_loop)
{
    NEED_ROOT();
    enum { CONNECTIONS = 100 };
    int file = make_hung_file(), clients[CONNECTIONS];
    f->server->limits.connections = f->server->accounts.limits.connections_uid = 2 * CONNECTIONS;
    KILN_AUTO(fd) int other = join_server_as(f, OTHER_USER);
    for (int i = 0; i < CONNECTIONS; i++)
        clients[i] = join_server(f);
    for (int i = 0; i < CONNECTIONS; i++) {
        uint8_t raw[128];
        int files[LIMIT_REQUEST_FILES] = { file, file };
        put_install_frame(raw, 1, "{}", 2);
        send_files(clients[i], raw, FRAME_HEADER_SIZE + 1, files, 2);
    }
    LOOP_UNTIL(f->loop, closer_is_full(f->closer, 0));
    expect_pong(f, other, 2);

    assert_false(closer_is_full(f->closer, OTHER_USER));
    unsigned held = 0;
    LIST_EACH (&f->server->sessions, struct session, link, s)
        held += s->files.count;
    assert_int_equal(held, (FULL / 2 + 1) * 2);
    for (int i = 0; i < CONNECTIONS; i++)
        __real_close(clients[i]);
    LOOP_UNTIL(f->loop, service.left >= CONNECTIONS);
    expect_pong(f, other, 3);

    assert_int_equal(hung.on_the_loop, 0);
    end_closes(ALL);
    WAIT_FOR(hung.closed >= held);
    drop_hung_file(file);
}

/* Linux closes unread descriptors together with their connection. */
TEST_F(hung, a_connection_with_unread_descriptors_is_not_closed_on_the_loop)
{
    struct stat seen;
    int file = make_hung_file();
    server_drain(f->server);
    send_hung(f->client, 1, file);
    assert_int_equal(fstat(first_session(f)->fd, &seen), 0);
    hung.inode = seen.st_ino;

    server_drop_sessions(f->server);
    LOOP_UNTIL(f->loop, hung.hanging + hung.on_the_loop > 0);

    assert_int_equal(hung.on_the_loop, 0);
    end_closes(1);
    assert_true(is_closed(f, f->client));
    drop_hung_file(file);
}

TEST_F(hung, a_close_that_hangs_does_not_block_the_end_of_the_closer)
{
    int file = make_hung_file();
    send_hung(f->client, 1, file);
    receive_pong(f, f->client, 1);
    WAIT_FOR(hung.hanging != 0);

    closer_destroy(f->closer);

    assert_int_equal(hung.closed, 0);
    must(closer_create(&CLOSER_LIMITS_DEFAULT, &f->closer, &f->err), f->err);
    LIST_EACH (&f->server->sessions, struct session, link, s)
        s->closer = s->files.closer = f->closer;
    LIST_EACH (&f->server->sessions, struct session, link, s)
        must(closer_join(f->closer, s->caller.uid, &f->err), f->err);
    f->server->closer = f->closer;
    end_closes(2);
    WAIT_FOR(hung.closed >= 1);
    drop_hung_file(file);
}
