/* SPDX-License-Identifier: MIT */
/* Files whose close hangs, as on a filesystem whose server is gone: nobody but who sent them
 * notices. */
#include "common/cleanup.h"
#include "common/clock.h"
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

/* ---- a close that hangs ---- */

static struct {
    pthread_t loop_thread;
    ino_t inode; /* of the files whose close hangs */
    unsigned on_the_loop, hanging, closed;
    sem_t gate;
} hung;

int __real_close(int fd);
int __wrap_close(int fd);

static bool is_hung(int fd)
{
    struct stat seen;
    ino_t inode = __atomic_load_n(&hung.inode, __ATOMIC_SEQ_CST);
    return inode && fstat(fd, &seen) == 0 && seen.st_ino == inode;
}

int __wrap_close(int fd)
{
    if (is_hung(fd) && pthread_equal(pthread_self(), hung.loop_thread)) {
        __atomic_add_fetch(&hung.on_the_loop, 1, __ATOMIC_SEQ_CST);
    } else if (is_hung(fd)) {
        __atomic_add_fetch(&hung.hanging, 1, __ATOMIC_SEQ_CST);
        while (sem_wait(&hung.gate) != 0) {
        }
        __atomic_add_fetch(&hung.closed, 1, __ATOMIC_SEQ_CST);
    }
    return __real_close(fd);
}

/* ---- a clock that can be put forward ---- */

static atomic_ullong hours_passed;

uint64_t __real_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void);

uint64_t __wrap_clock_monotonic_ns(void)
{
    return __real_clock_monotonic_ns() + hours_passed * 3600 * 1000000000u;
}

static unsigned look(const unsigned *count) { return __atomic_load_n(count, __ATOMIC_SEQ_CST); }

static void let_go(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        sem_post(&hung.gate);
}

/* ---- fixture ---- */

static int set_up_hung(void **state)
{
    memset(&hung, 0, sizeof(hung));
    sem_init(&hung.gate, 0, 0);
    hours_passed = 0;
    hung.loop_thread = pthread_self();
    return set_up(state);
}

static int tear_down_hung(void **state)
{
    let_go(10000);
    return tear_down(state);
}

FIXTURE(hung, set_up_hung, tear_down_hung);

static int make_hung_file(void)
{
    struct stat seen;
    int fd = memfd_create("hung", MFD_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &seen) == 0);
    __atomic_store_n(&hung.inode, seen.st_ino, __ATOMIC_SEQ_CST);
    return fd;
}

static int join_as(struct fixture *f, uid_t uid)
{
    assert_int_equal(chmod(f->directory, 0711) | chmod(f->path, 0666), 0);
    assert_int_equal(seteuid(uid), 0);
    int fd = join(f);
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

static bool is_answered(struct fixture *f, int client, uint64_t id)
{
    char body[1024];
    struct frame_header header = take_header(f, client);
    assert_true(header.body_size <= sizeof(body));
    take(f, client, body, header.body_size);
    return header.type == MESSAGE_pong && header.request_id == id;
}

static void forget(int file)
{
    __atomic_store_n(&hung.inode, 0, __ATOMIC_SEQ_CST);
    __real_close(file);
}

/* ---- tests ---- */

TEST(hung, a_close_that_hangs_keeps_nobody_waiting)
{
    struct fixture *f = *state;
    int file = make_hung_file();
    KILN_AUTO(fd) int other = join(f);

    send_hung(f->client, 1, file);
    assert_true(is_answered(f, f->client, 1));
    WAIT_FOR(look(&hung.hanging) != 0);
    ask(other, MESSAGE_ping, 2, "");
    assert_true(is_answered(f, other, 2));
    ask(f->client, MESSAGE_ping, 3, "");
    assert_true(is_answered(f, f->client, 3));

    assert_int_equal(look(&hung.hanging), 1); /* one at a time of one user */
    assert_int_equal(look(&hung.on_the_loop), 0);
    let_go(2);
    WAIT_FOR(look(&hung.closed) >= 2);
    forget(file);
}

TEST(hung, a_user_who_sends_too_many_descriptors_is_refused_and_others_are_not)
{
    struct fixture *f = *state;
    if (geteuid() != 0)
        skip();
    int file = make_hung_file();
    KILN_AUTO(fd) int other = join_as(f, OTHER_USER);
    unsigned most = CLOSER_LIMITS_DEFAULT.held_max_uid - LIMIT_FRAME_DESCRIPTORS;

    for (uint64_t id = 1; id <= most / 2 + 1; id++) {
        send_hung(f->client, id, file);
        assert_true(is_answered(f, f->client, id));
    }
    WAIT_FOR(look(&hung.hanging) != 0);
    send_hung(f->client, 1000, file);
    assert_refused(f, f->client, 0, TOO_MANY);
    assert_true(is_closed(f, f->client));
    KILN_AUTO(fd) int again = dial(f);
    assert_refused(f, again, 0, TOO_MANY);
    ask(other, MESSAGE_ping, 7, "");
    assert_true(is_answered(f, other, 7));
    send_hung(other, 8, file); /* a thread of its own */
    assert_true(is_answered(f, other, 8));
    WAIT_FOR(look(&hung.hanging) >= 2);

    assert_int_equal(look(&hung.on_the_loop), 0);
    let_go(10000);
    WAIT_FOR(look(&hung.closed) >= (most / 2 + 1) * 2 + 2);
    WAIT_FOR(!closer_is_full(f->closer, 0)); /* the last is counted a moment longer */
    KILN_AUTO(fd) int later = join(f);
    ask(later, MESSAGE_ping, 9, "");
    assert_true(is_answered(f, later, 9));
    forget(file);
}

/* Nothing hangs, it only takes its time: who waits is served, and so is who comes. */
TEST(hung, while_files_are_being_closed_their_user_waits)
{
    struct fixture *f = *state;
    int file = make_hung_file();
    unsigned most = CLOSER_LIMITS_DEFAULT.held_max_uid - LIMIT_FRAME_DESCRIPTORS;
    f->server->limits.full_ms = 1000000;
    for (uint64_t id = 1; id <= most / 2 + 1; id++) {
        send_hung(f->client, id, file);
        assert_true(is_answered(f, f->client, id));
    }
    service.handled = 0;
    ask(f->client, MESSAGE_ping, 1000, "");
    KILN_AUTO(fd) int other = dial(f);
    for (int turn = 0; turn < 5; turn++)
        loop_iteration(f->loop);
    const struct session *last = LIST_LAST(&f->server->sessions, struct session, link);
    assert_true(first_session(f)->is_barred || last->is_barred);
    assert_int_equal(service.handled, 0);

    let_go(10000);
    assert_true(is_answered(f, f->client, 1000));
    ask(other, MESSAGE_ping, 1001, "");
    assert_true(is_answered(f, other, 1001));
    assert_int_equal(server_counts(f->server).protocol_errors, 0);
    forget(file);
}

/* Returns how many files that took. */
static unsigned fill(struct fixture *f, int file)
{
    unsigned count = 0;
    for (; !closer_is_full(f->closer, 0); count++) {
        closer_charge(f->closer, 0, 1);
        closer_take(f->closer, 0, fcntl(file, F_DUPFD_CLOEXEC, 3));
    }
    return count;
}

/* Nobody asks between the two: that he was not full meanwhile is noted all the same. */
TEST(hung, a_user_who_is_full_only_now_and_then_is_not_stuck)
{
    struct fixture *f = *state;
    const uint64_t grace_ms = 600000;
    int file = make_hung_file();
    unsigned taken = fill(f, file);
    assert_int_equal(closer_check(f->closer, 0, grace_ms), CLOSER_IS_FULL);
    let_go(10000);
    WAIT_FOR(!closer_is_full(f->closer, 0));
    while (sem_trywait(&hung.gate) == 0) {
    }
    hours_passed = 1;
    taken += fill(f, file);
    assert_int_equal(closer_check(f->closer, 0, grace_ms), CLOSER_IS_FULL);
    hours_passed = 2;
    assert_int_equal(closer_check(f->closer, 0, grace_ms), CLOSER_IS_STUCK);
    let_go(10000);
    WAIT_FOR(look(&hung.closed) >= taken);
    forget(file);
}

/* Each connection keeps files for a frame that it never finishes; then all of them go at once. */
TEST(hung, files_of_unfinished_frames_count_and_are_not_closed_on_the_loop)
{
    struct fixture *f = *state;
    if (geteuid() != 0)
        skip();
    enum { CONNECTIONS = 100 };
    unsigned most = CLOSER_LIMITS_DEFAULT.held_max_uid - LIMIT_FRAME_DESCRIPTORS;
    int file = make_hung_file(), clients[CONNECTIONS];
    f->server->limits.connections = f->server->accounts.connections_max = 2 * CONNECTIONS;
    KILN_AUTO(fd) int other = join_as(f, OTHER_USER);
    for (int i = 0; i < CONNECTIONS; i++)
        clients[i] = join(f);
    for (int i = 0; i < CONNECTIONS; i++) {
        uint8_t raw[128];
        int files[LIMIT_REQUEST_FILES] = { file, file };
        put_install_frame(raw, 1, "{}", 2);
        send_files(clients[i], raw, FRAME_HEADER_SIZE + 1, files, 2);
    }
    ask(other, MESSAGE_ping, 2, "");
    assert_true(is_answered(f, other, 2));

    assert_true(closer_is_full(f->closer, 0));
    assert_false(closer_is_full(f->closer, OTHER_USER));
    unsigned held = 0;
    LIST_EACH (&f->server->sessions, struct session, link, s)
        held += s->files.count;
    assert_int_equal(held, (most / 2 + 1) * 2); /* and from nobody beyond them anything is read */
    for (int i = 0; i < CONNECTIONS; i++)
        __real_close(clients[i]);
    LOOP_UNTIL(f->loop, service.left >= CONNECTIONS);
    ask(other, MESSAGE_ping, 3, "");
    assert_true(is_answered(f, other, 3));

    assert_int_equal(look(&hung.on_the_loop), 0);
    let_go(10000);
    WAIT_FOR(look(&hung.closed) >= held);
    forget(file);
}

/* What is in flight the kernel closes with the connection. */
TEST(hung, a_connection_with_unread_files_is_not_closed_on_the_loop)
{
    struct fixture *f = *state;
    struct stat seen;
    int file = make_hung_file();
    server_drain(f->server); /* reads no more */
    send_hung(f->client, 1, file);
    assert_int_equal(fstat(first_session(f)->fd, &seen), 0);
    __atomic_store_n(&hung.inode, seen.st_ino, __ATOMIC_SEQ_CST);

    server_drop_sessions(f->server);
    LOOP_UNTIL(f->loop, look(&hung.hanging) + look(&hung.on_the_loop) > 0);

    assert_int_equal(look(&hung.on_the_loop), 0);
    let_go(1);
    assert_true(is_closed(f, f->client));
    forget(file);
}

TEST(hung, descriptors_left_at_the_end_do_not_block_the_end_of_the_closer)
{
    struct fixture *f = *state;
    int file = make_hung_file();
    send_hung(f->client, 1, file);
    assert_true(is_answered(f, f->client, 1));
    WAIT_FOR(look(&hung.hanging) != 0);

    closer_destroy(f->closer); /* returns */

    assert_int_equal(look(&hung.closed), 0);
    must(closer_create(&CLOSER_LIMITS_DEFAULT, &f->closer, &f->err), f->err);
    LIST_EACH (&f->server->sessions, struct session, link, s)
        s->closer = s->files.closer = f->closer;
    LIST_EACH (&f->server->sessions, struct session, link, s)
        must(closer_join(f->closer, s->caller.uid, &f->err), f->err);
    f->server->closer = f->closer;
    let_go(2);
    WAIT_FOR(look(&hung.closed) >= 1);
    forget(file);
}
