/* SPDX-License-Identifier: MIT */
/* A job's descriptors, with the engine in its process: they stay its own while threads come and go,
 * and where there are too few it is told. */
#include "tests/integration/embedded_steps.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- threads that come and go ---- */

#define ASKERS 2
#define ASKER_TIMES 800
#define JOBS_SOCKETS 8
#define WORD "the job's"

struct asker {
    pthread_t thread;
    atomic_uint *working;
    struct kiln_error err;
    bool failed;
};

/* The engine begins and ends with the only client that there is at the time. */
static void *open_and_close(void *context)
{
    struct asker *a = context;
    for (unsigned n = 0; !a->failed && n < ASKER_TIMES; n++) {
        struct kiln_client *client = open_client(&a->err);
        a->failed = !client || kiln_client_ping(client, 0, NULL, &a->err) != 0;
        kiln_client_close(client);
    }
    atomic_fetch_sub(a->working, 1);
    return NULL;
}

static bool sockets_keep_what_is_in_them(void)
{
    int ends[JOBS_SOCKETS][2];
    bool do_keep = true;
    for (unsigned i = 0; i < JOBS_SOCKETS; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[i]) != 0 ||
            send(ends[i][0], WORD, sizeof(WORD), MSG_NOSIGNAL) != sizeof(WORD) ||
            send(ends[i][1], WORD, sizeof(WORD), MSG_NOSIGNAL) != sizeof(WORD))
            return false;
    }
    sched_yield();
    for (unsigned i = 0; i < 2 * JOBS_SOCKETS; i++) {
        char word[sizeof(WORD)] = "";
        int fd = ends[i / 2][i % 2];
        do_keep = do_keep && recv(fd, word, sizeof(word), MSG_DONTWAIT) == sizeof(word);
        do_keep = close(fd) == 0 && do_keep;
    }
    return do_keep;
}

static int open_and_close_in_threads(struct fixture *f)
{
    static struct asker askers[ASKERS];
    static atomic_uint working = ASKERS;
    bool do_keep = true;
    without_compilers();
    for (unsigned i = 0; i < ASKERS; i++) {
        askers[i].working = &working;
        NEED(1, pthread_create(&askers[i].thread, NULL, open_and_close, &askers[i]) == 0);
    }
    while (do_keep && atomic_load(&working) > 0)
        do_keep = sockets_keep_what_is_in_them();
    for (unsigned i = 0; i < ASKERS; i++) {
        NEED(2, pthread_join(askers[i].thread, NULL) == 0);
        if (askers[i].failed)
            snprintf(f->shared->jobs[0].error, sizeof(f->shared->jobs[0].error), "%s",
                     askers[i].err.text);
        NEED(3, !askers[i].failed);
    }
    NEED(4, do_keep);
    return use_once(f);
}

/* One waits for an engine to end, another starts the next. */
TEST(embedded, threads_that_each_open_and_close_are_all_served)
{
    struct fixture *f = *state;
    run_as_job(f, open_and_close_in_threads);
    assert_says(f->shared->jobs[0].reason, f->store);
    expect_sound_store(f);
}

/* ---- too few ---- */

#define FILES_MOST 64

static int have_no_file_left(struct fixture *f)
{
    struct kiln_error err = { 0 };
    struct rlimit before, few;
    int taken[FILES_MOST], count = 0;
    without_compilers();
    NEED(1, getrlimit(RLIMIT_NOFILE, &before) == 0);
    few = (struct rlimit){ .rlim_cur = FILES_MOST, .rlim_max = before.rlim_max };
    struct kiln_client *client = open_client(&err);
    NEED(2, client && setrlimit(RLIMIT_NOFILE, &few) == 0);
    while (count < FILES_MOST && (taken[count] = dup(STDERR_FILENO)) >= 0)
        count++;
    NEED(3, kiln_client_ping(client, 0, NULL, &err) != 0);
    snprintf(f->shared->jobs[0].error, sizeof(f->shared->jobs[0].error), "%s", err.text);
    NEED(4, strstr(err.text, "Too many open files"));
    while (count > 0)
        close(taken[--count]);
    NEED(5, setrlimit(RLIMIT_NOFILE, &before) == 0);
    NEED(6, kiln_client_ping(client, 0, NULL, &err) == 0);
    look(client, &f->shared->jobs[0]);
    kiln_client_close(client);
    return 0;
}

TEST(embedded, a_job_without_a_free_descriptor_is_told_and_loses_no_store)
{
    struct fixture *f = *state;
    run_as_job(f, have_no_file_left);
    assert_int_equal(atomic_load(&f->shared->jobs[0].rung), KILN_RUNG_EMBEDDED);
    assert_says(f->shared->jobs[0].reason, f->store);
}

#define FEWEST 8
#define ENOUGH 28 /* for a job that asks its engine whether it is there */
#define FEW "Too many open files"

/* Where they do not suffice, that is the error, and it does not take a call's time to come. */
static int be_served_or_told(struct fixture *f)
{
    struct kiln_error err = { 0 };
    struct rlimit few = { 0 };
    without_compilers();
    NEED(1, getrlimit(RLIMIT_NOFILE, &few) == 0);
    few.rlim_cur = atomic_load(&f->shared->allowed);
    NEED(2, setrlimit(RLIMIT_NOFILE, &few) == 0);
    struct kiln_client *client = open_client(&err);
    bool is_served = client && kiln_client_ping(client, 0, NULL, &err) == 0;
    kiln_client_close(client);
    snprintf(f->shared->jobs[0].error, sizeof(f->shared->jobs[0].error), "%s", err.text);
    NEED(3, is_served || strstr(err.text, FEW));
    NEED(4, is_served || !strstr(err.text, "in time"));
    return 0;
}

TEST(embedded, a_job_with_few_descriptors_is_served_or_told)
{
    struct fixture *f = *state;
    for (unsigned count = FEWEST; count <= ENOUGH; count += 2) {
        atomic_store(&f->shared->allowed, count);
        run_as_job(f, be_served_or_told);
    }
}
