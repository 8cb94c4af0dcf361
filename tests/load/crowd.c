/* SPDX-License-Identifier: MIT */
#include "tests/load/crowd.h"

#include "tests/load/peer.h"
#include "tests/support/child.h"
#include "tests/support/daemon_process.h"
#include "tests/support/wait.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

/* time limit of a run; long enough for the largest crowd of scripts/load */
#define RUN_MAX_S 3600

#define STACK_BYTES (512u << 10)

/* Percentage of each kind of client. */
static const unsigned shares[CLIENT_KINDS] = {
    [BEHAVING] = 70, [KILLED] = 10, [SLOW] = 5, [STALLED] = 5, [HOSTILE] = 10
};

/* Returns the number of different kernels. About a hundred clients request each one, because the
 * jobs of a host share most kernels. */
static unsigned pool_of(unsigned clients, unsigned kernels)
{
    unsigned pool = clients * kernels / 100;
    return pool > kernels ? pool : kernels;
}

unsigned crowd_kernel(const struct crowd_member *m, unsigned i)
{
    const struct crowd *c = m->crowd;
    unsigned place = m->index * 37 + i;
    return c->first + place % c->pool;
}

void crowd_fail(struct crowd *c, const char *fmt, ...)
{
    va_list more;
    if (atomic_fetch_add(&c->counts->wrong, 1) > 0)
        return;
    va_start(more, fmt);
    vsnprintf(c->counts->why, sizeof(c->counts->why), fmt, more);
    va_end(more);
}

void crowd_wait_for_close(struct crowd *c, int fd)
{
    struct pollfd closed = { .fd = fd };
    if (poll(&closed, 1, CROWD_WAIT_MS) != 1)
        crowd_fail(c, "waited %d s for the other clients", CROWD_WAIT_MS / 1000);
}

void crowd_wait_for_start(struct crowd *c)
{
    atomic_fetch_add(&c->counts->joined, 1);
    crowd_wait_for_close(c, c->gate[0]);
}

static void *run_client_thread(void *context)
{
    crowd_run_member(context);
    return NULL;
}

/* Starts the process of a KILLED client. It forks, so call it before any thread starts. */
static void start_process(struct crowd_member *m)
{
    m->pid = fork();
    assert_true(m->pid >= 0);
    if (m->pid > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(m->crowd->gate[1]);
    close(m->crowd->late[1]);
    crowd_run_member(m);
    _exit(0);
}

static void start_thread(struct crowd_member *m)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    assert_int_equal(pthread_create(&m->thread, &attributes, run_client_thread, m), 0);
    pthread_attr_destroy(&attributes);
}

static void assign_kinds(struct crowd *c)
{
    unsigned rest = c->clients, at = 0;
    for (int client_kind = BEHAVING + 1; client_kind < CLIENT_KINDS; client_kind++) {
        c->count_of[client_kind] = c->clients * shares[client_kind] / 100;
        c->count_of[client_kind] += c->count_of[client_kind] == 0;
        rest -= c->count_of[client_kind];
    }
    c->count_of[BEHAVING] = rest;
    for (int client_kind = 0; client_kind < CLIENT_KINDS; client_kind++) {
        for (unsigned i = 0; i < c->count_of[client_kind]; i++)
            c->members[at++] = (struct crowd_member){ .crowd = c,
                                                      .index = i,
                                                      .kind = (enum client_kind)client_kind };
    }
}

static bool have_joined(void *context)
{
    struct crowd *c = context;
    return atomic_load(&c->counts->joined) == c->clients || atomic_load(&c->counts->wrong) > 0;
}

void crowd_open(struct crowd *c, const char *socket, unsigned clients, unsigned kernels,
                unsigned first)
{
    *c = (struct crowd){ .socket = socket,
                         .clients = clients,
                         .kernels = kernels,
                         .first = first,
                         .pool = pool_of(clients, kernels) };
    c->hashes = calloc(c->pool, sizeof(*c->hashes));
    c->members = calloc(clients, sizeof(*c->members));
    c->counts =
        mmap(NULL, sizeof(*c->counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(c->hashes && c->members && c->counts != MAP_FAILED);
    assert_int_equal(pipe2(c->gate, O_CLOEXEC), 0);
    assert_int_equal(pipe2(c->late, O_CLOEXEC), 0);
    for (unsigned i = 0; i < c->pool; i++)
        c->hashes[i] = made_hash(first + i);
    assign_kinds(c);
    for (unsigned i = 0; i < clients; i++) {
        if (c->members[i].kind == KILLED)
            start_process(&c->members[i]);
    }
    for (unsigned i = 0; i < clients; i++) {
        if (c->members[i].kind != KILLED)
            start_thread(&c->members[i]);
    }
    if (!holds_in_time(have_joined, c) || atomic_load(&c->counts->wrong) > 0)
        fail_msg("%u of %u clients have connected: %s", atomic_load(&c->counts->joined), clients,
                 c->counts->why);
}

static bool killed_clients_are_ready(void *context)
{
    struct crowd *c = context;
    return atomic_load(&c->counts->ready) == c->count_of[KILLED] ||
           atomic_load(&c->counts->wrong) > 0;
}

static void kill_clients(struct crowd *c)
{
    if (!holds_in_time(killed_clients_are_ready, c))
        crowd_fail(c, "only %u of %u clients were ready to be killed",
                   atomic_load(&c->counts->ready), c->count_of[KILLED]);
    for (unsigned i = 0; i < c->clients; i++) {
        struct crowd_member *m = &c->members[i];
        if (m->kind == KILLED && kill(m->pid, SIGKILL) == 0)
            await_child(m->pid);
    }
}

static void join_threads(struct crowd *c, bool stalled)
{
    for (unsigned i = 0; i < c->clients; i++) {
        struct crowd_member *m = &c->members[i];
        if (m->kind != KILLED && (m->kind == STALLED) == stalled)
            await_thread_long(m->thread, NULL, "a client of the crowd to end", RUN_MAX_S);
    }
}

void crowd_run(struct crowd *c)
{
    close(c->gate[1]);
    kill_clients(c);
    join_threads(c, /* stalled= */ false);
    close(c->late[1]);
    join_threads(c, /* stalled= */ true);
}

void crowd_close(struct crowd *c)
{
    close(c->gate[0]);
    close(c->late[0]);
    munmap(c->counts, sizeof(*c->counts));
    free(c->members);
    free(c->hashes);
}
