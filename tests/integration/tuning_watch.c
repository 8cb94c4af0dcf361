/* SPDX-License-Identifier: MIT */
/* Counters of changed records, of a real kilnd. */
#include "tests/integration/host.h"
#include "tests/support/child.h"
#include "tests/support/raw_client.h"
#include "tests/support/test_problem.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define CLIENTS 1000u
#define ANN 45001
#define BOB 45002

typedef const _Atomic uint64_t counter;

struct fixture {
    struct daemon_process daemon;
};

SET_UP(set_up)
{
    static const char *const without_compilers[] = { "--workers=0", NULL };
    daemon_process_open(&f->daemon, without_compilers);
    if (geteuid() == 0)
        admit_all_users(&f->daemon);
}

FIXTURE(watch, set_up, NULL);

static counter *watch(int connection)
{
    static struct raw_frame frame;
    static const uint8_t flags = 0;
    raw_send_frame(connection, MESSAGE_tuning_watch, 5, bytes_of(&flags, 1));
    assert_true(raw_receive(connection, &frame));
    assert_int_equal(frame.header.type, MESSAGE_watched);
    assert_int_equal(frame.fd_count, 1);
    void *mapping = mmap(NULL, TUNING_WATCH_SIZE, PROT_READ, MAP_SHARED, frame.fds[0], 0);
    assert_true(mapping != MAP_FAILED);
    raw_close_descriptors(&frame);
    return mapping;
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static void put_record(int connection, const char *solver)
{
    static struct raw_frame frame;
    BUFFER_AUTO struct buffer entry, body;
    buffer_init(&entry, 1000);
    buffer_init(&body, 2000);
    const struct message_tuning_entry e = { .solver = bytes_of_text(solver),
                                            .params = bytes_of_text("1,2"),
                                            .samples = 3,
                                            .median_ms = bits_of(0.5),
                                            .spread_ms = bits_of(0.01) };
    message_tuning_entry_write(&entry, &e);
    const struct message_tuning_put m = { .kind = 1,
                                          .tier = 3,
                                          .problem = test_problem(1),
                                          .database_id = bytes_of_text("gfx906_60"),
                                          .library = bytes_of_text("test"),
                                          .count = 1,
                                          .entries = buffer_view(&entry) };
    message_tuning_put_write(&body, &m);
    raw_send_frame(connection, MESSAGE_tuning_put, 6, buffer_view(&body));
    assert_true(raw_receive(connection, &frame));
    assert_int_equal(frame.header.type, MESSAGE_recorded);
}

static void allow_many_files(void)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < 2 * CLIENTS)
        SKIP("this process may open only %lu files", (unsigned long)limit.rlim_cur);
}

TEST_F(watch, a_thousand_clients_see_a_change)
{
    int connections[CLIENTS];
    counter *counters[CLIENTS];
    allow_many_files();
    for (unsigned i = 0; i < CLIENTS; i++) {
        connections[i] = raw_greeted(&f->daemon);
        counters[i] = watch(connections[i]);
    }
    uint64_t before = *counters[0];
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_true(*counters[i] == before);
    put_record(connections[0], "SolverC");
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_true(*counters[i] != before);
    for (unsigned i = 0; i < CLIENTS; i++)
        close(connections[i]);
}

TEST_F(watch, a_client_that_is_killed_disturbs_no_other_client)
{
    int mine = raw_greeted(&f->daemon), ready[2];
    counter *seen = watch(mine);
    uint64_t before = *seen;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)watch(raw_greeted(&f->daemon));
        (void)!write(ready[1], "", 1);
        for (;;)
            pause();
    }
    await_progress(ready[0], 1);
    kill(pid, SIGKILL);
    assert_int_equal(await_child(pid), SIGKILL);
    put_record(mine, "SolverC");
    assert_true(*seen != before);
    close(ready[0]);
    close(ready[1]);
    close(mine);
}

TEST_F(watch, another_user_sees_nothing)
{
    if (geteuid() != 0)
        SKIP("only root can connect as two users");
    int ann = raw_greeted_as(&f->daemon, ANN), bob = raw_greeted_as(&f->daemon, BOB);
    counter *anns = watch(ann), *bobs = watch(bob);
    uint64_t of_ann = *anns, of_bob = *bobs;
    put_record(ann, "SolverC");
    assert_true(*anns != of_ann);
    assert_true(*bobs == of_bob);
    put_record(bob, "SolverC");
    assert_true(*bobs != of_bob);
    close(ann);
    close(bob);
}

TEST_F(watch, a_counter_outlives_its_kilnd)
{
    int first = raw_greeted(&f->daemon);
    counter *old = watch(first);
    put_record(first, "SolverC");
    uint64_t last = *old;
    daemon_process_kill(&f->daemon);
    assert_true(*old == last);
    daemon_process_start(&f->daemon);
    int second = raw_greeted(&f->daemon);
    counter *new = watch(second);
    assert_true(*new != last);
    uint64_t before = *new;
    put_record(second, "SolverD");
    assert_true(*new != before);
    assert_true(*old == last);
    close(first);
    close(second);
}
