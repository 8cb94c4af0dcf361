/* SPDX-License-Identifier: MIT */

/* Kills eight writing threads with SIGKILL. The store must open without damage each time.
 *
 * By default, there are a few kills, each after some puts. KILN_TEST_KILL_SECONDS=120 kills once
 * a second for 120 seconds instead. */
#include "store_fixture.h"
#include "tests/support/child.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WRITERS 8u
#define KILLS 5u
#define KERNELS 400u
/* A third of the kernels fit this limit, so that writers are also killed while they evict. */
#define LIMIT (4u << 20)
#define NAMED 1000u /* keys from here on have names */

struct work_queue { /* one write at a time, as in the daemon */
    struct fixture *f;
    pthread_mutex_t mutex;
    int progress;
};

static struct object *content_of(unsigned number)
{
    return object_of(1000 + number * 97, number + 1, number % 2);
}

static enum kiln_code put_one(struct work_queue *work_queue, unsigned number, bool named)
{
    struct fixture *f = work_queue->f;
    struct object *object = content_of(number);
    struct kernel_record record = { .key = key_of(named ? NAMED + number : number),
                                    .target = "gfx90a",
                                    .program = "conv.cpp",
                                    .options = "-O3",
                                    .database_id = named ? "gfx90a68" : "",
                                    .uid = number % 5,
                                    .is_private = named && number % 2,
                                    .compile_ns = 1000000000 };
    uint64_t evicted = 0;
    pthread_mutex_lock(&work_queue->mutex);
    enum kiln_code rc = kernel_store_put(f->store, &record, object, &evicted, &f->err);
    pthread_mutex_unlock(&work_queue->mutex);
    object_unref(object);
    return rc;
}

static enum kiln_code change_one(struct work_queue *work_queue, unsigned number)
{
    struct fixture *f = work_queue->f;
    struct digest key = key_of(number);
    bool more = false;
    enum kiln_code rc = KILN_OK;
    pthread_mutex_lock(&work_queue->mutex);
    switch (number % 4) {
    case 0: rc = kernel_store_remove(f->store, &key, &f->err); break;
    case 1: rc = kernel_store_touch(f->store, &key, 1, 1800000000 + number, &f->err); break;
    case 2: rc = kernel_store_pin(f->store, &key, number % 8 == 2, &more, &f->err); break;
    default: rc = kernel_store_tidy(f->store, &more, &f->err);
    }
    pthread_mutex_unlock(&work_queue->mutex);
    return rc == KILN_NOT_FOUND ? KILN_OK : rc;
}

struct writer {
    struct work_queue *work_queue;
    unsigned seed;
};

static void *write_until_killed(void *context)
{
    struct writer *w = context;
    for (;;) {
        unsigned number = (unsigned)rand_r(&w->seed) % KERNELS;
        if (put_one(w->work_queue, number, number % 3 == 0) != KILN_OK ||
            change_one(w->work_queue, (unsigned)rand_r(&w->seed) % KERNELS) != KILN_OK ||
            write(w->work_queue->progress, ".", 1) != 1) {
            fprintf(stderr, "a writer failed: %s\n", w->work_queue->f->err.text);
            _exit(1);
        }
    }
    return NULL;
}

static void run_writers(struct fixture *f, unsigned round, int progress)
{
    struct work_queue work_queue = { .f = f,
                                     .mutex = PTHREAD_MUTEX_INITIALIZER,
                                     .progress = progress };
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    if (reopen(f, LIMIT) != KILN_OK)
        _exit(1);
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){ .work_queue = &work_queue, .seed = round * WRITERS + i + 1 };
        if (pthread_create(&threads[i], NULL, write_until_killed, &writers[i]) != 0)
            _exit(1);
    }
    pause();
    _exit(1);
}

static unsigned read_for_a_second(int progress)
{
    char dots[4096];
    unsigned count = 0;
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec++;
    for (;;) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        long left = (end.tv_sec - now.tv_sec) * 1000 + (end.tv_nsec - now.tv_nsec) / 1000000;
        struct pollfd p = { .fd = progress, .events = POLLIN };
        if (left <= 0 || poll(&p, 1, (int)left) <= 0)
            return count;
        ssize_t got = read(progress, dots, sizeof(dots));
        if (got <= 0)
            return count;
        count += (unsigned)got;
    }
}

static unsigned kill_writers(struct fixture *f, unsigned round, bool by_time)
{
    int ends[2];
    unsigned done = 40 + 60 * round;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        run_writers(f, round, ends[1]);
    close(ends[1]);
    if (by_time)
        done = read_for_a_second(ends[0]);
    else
        await_progress(ends[0], done);
    kill(child, SIGKILL);
    int status = await_child(child);
    close(ends[0]);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return done;
}

static unsigned check_kernels(struct fixture *f, const struct digest expected[KERNELS])
{
    unsigned there = 0;
    for (unsigned i = 0; i < 2 * KERNELS; i++) {
        struct digest key = key_of(i < KERNELS ? i : NAMED + i - KERNELS);
        struct object *object = NULL;
        bool damaged = false;
        enum kiln_code rc = kernel_store_get(f->store, &key, &object, &damaged, &f->err);
        assert_true(rc == KILN_OK || rc == KILN_NOT_FOUND);
        assert_false(damaged);
        there += rc == KILN_OK;
        if (object)
            assert_true(digest_equal(&object->digest, &expected[i % KERNELS]));
        object_unref(object);
    }
    return there;
}

static void check_clean(struct fixture *f, const struct digest expected[KERNELS])
{
    assert_int_equal(reopen(f, LIMIT), KILN_OK);
    assert_string_equal(f->notice, "");
    assert_int_equal(check_kernels(f, expected), usage(f).kernels);
    assert_true(taken(f) <= LIMIT);
    assert_int_equal(ask(f, "select count(*) from quarantine"), 0);
    assert_int_equal(ask(f, "select count(*) from pragma_integrity_check"
                            " where integrity_check = 'ok'"),
                     1);
    assert_int_equal(usage(f).stored_bytes, ask(f, "select sum(stored_size) from object"));
    assert_int_equal(usage(f).kernels, ask(f, "select count(*) from recency"));
    assert_int_equal(ask(f, "select sum(kernels) from usage_uid"), usage(f).kernels);
    assert_int_equal(ask(f, "select sum(bytes) from usage_uid"),
                     ask(f, "select sum(k.row_bytes + o.stored_size) from kernel k"
                            " join object o on o.id = k.object"));
    close_store(f);
}

TEST_F(store, eight_killed_writers_leave_a_consistent_store)
{
    struct digest expected[KERNELS];
    const char *seconds = getenv("KILN_TEST_KILL_SECONDS");
    unsigned kills = seconds ? (unsigned)strtoul(seconds, NULL, 10) : KILLS;
    uint64_t puts = 0;
    close_store(f);
    for (unsigned i = 0; i < KERNELS; i++) {
        struct object *object = content_of(i);
        expected[i] = object->digest;
        object_unref(object);
    }

    for (unsigned i = 0; i < kills; i++) {
        puts += kill_writers(f, i, seconds != NULL);
        check_clean(f, expected);
    }

    print_message("%u kills, %llu puts\n", kills, (unsigned long long)puts);
    assert_true(puts >= kills);
}
