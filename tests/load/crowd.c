/* SPDX-License-Identifier: MIT */
#include "tests/load/crowd.h"

#include "tests/load/peer.h"
#include "tests/support/daemon_process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES (512u << 10)

/* Of a hundred clients. */
static const unsigned shares[MANNERS] = {
    [RIGHT] = 70, [DYING] = 10, [SIPPING] = 5, [MUTE] = 5, [HOSTILE] = 10
};

/* Each kernel is wanted by a tenth of the clients: a host's jobs have much in common. */
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

void crowd_complain(struct crowd *c, const char *fmt, ...)
{
    va_list more;
    if (atomic_fetch_add(&c->counts->wrong, 1) > 0)
        return;
    va_start(more, fmt);
    vsnprintf(c->counts->why, sizeof(c->counts->why), fmt, more);
    va_end(more);
}

static void wait_for_end(int fd)
{
    char none;
    while (read(fd, &none, 1) > 0) {
    }
}

void crowd_wait(struct crowd *c)
{
    atomic_fetch_add(&c->counts->joined, 1);
    wait_for_end(c->gate[0]);
}

/* ---- starting them ---- */

static void *run_thread(void *context)
{
    crowd_live(context);
    return NULL;
}

/* Before there are threads. */
static void start_process(struct crowd_member *m)
{
    m->pid = fork();
    assert_true(m->pid >= 0);
    if (m->pid > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(m->crowd->gate[1]);
    close(m->crowd->late[1]);
    crowd_live(m);
    _exit(0);
}

static void start_thread(struct crowd_member *m)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    assert_int_equal(pthread_create(&m->thread, &attributes, run_thread, m), 0);
    pthread_attr_destroy(&attributes);
}

static void share_out(struct crowd *c)
{
    unsigned rest = c->clients, at = 0;
    for (int manner = RIGHT + 1; manner < MANNERS; manner++) {
        c->of[manner] = c->clients * shares[manner] / 100;
        c->of[manner] += c->of[manner] == 0;
        rest -= c->of[manner];
    }
    c->of[RIGHT] = rest;
    for (int manner = 0; manner < MANNERS; manner++) {
        for (unsigned i = 0; i < c->of[manner]; i++)
            c->members[at++] =
                (struct crowd_member){ .crowd = c, .index = i, .manner = (enum manner)manner };
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
    share_out(c);
    for (unsigned i = 0; i < clients; i++) {
        if (c->members[i].manner == DYING)
            start_process(&c->members[i]);
    }
    for (unsigned i = 0; i < clients; i++) {
        if (c->members[i].manner != DYING)
            start_thread(&c->members[i]);
    }
    if (!holds_in_time(have_joined, c) || atomic_load(&c->counts->wrong) > 0)
        fail_msg("%u of %u clients have joined: %s", atomic_load(&c->counts->joined), clients,
                 c->counts->why);
}

/* ---- the run ---- */

static bool all_are_in_it(void *context)
{
    struct crowd *c = context;
    return atomic_load(&c->counts->ready) == c->of[DYING] || atomic_load(&c->counts->wrong) > 0;
}

static void kill_the_dying(struct crowd *c)
{
    if (!holds_in_time(all_are_in_it, c))
        crowd_complain(c, "only %u of %u were ready to die", atomic_load(&c->counts->ready),
                       c->of[DYING]);
    for (unsigned i = 0; i < c->clients; i++) {
        struct crowd_member *m = &c->members[i];
        if (m->manner == DYING && kill(m->pid, SIGKILL) == 0)
            waitpid(m->pid, NULL, 0);
    }
}

static void join(struct crowd *c, bool mute)
{
    for (unsigned i = 0; i < c->clients; i++) {
        struct crowd_member *m = &c->members[i];
        if (m->manner != DYING && (m->manner == MUTE) == mute)
            pthread_join(m->thread, NULL);
    }
}

void crowd_run(struct crowd *c)
{
    close(c->gate[1]);
    kill_the_dying(c);
    join(c, /* mute= */ false);
    close(c->late[1]);
    join(c, /* mute= */ true);
}

void crowd_close(struct crowd *c)
{
    close(c->gate[0]);
    close(c->late[0]);
    munmap(c->counts, sizeof(*c->counts));
    free(c->members);
    free(c->hashes);
}
