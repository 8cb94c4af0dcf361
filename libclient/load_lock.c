/* SPDX-License-Identifier: MIT */
#include "libclient/load_lock.h"

#include "common/clock.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

/* A library whose constructor waits for somebody who forks must not stop both for good. */
#define FORK_WAITS_NS 5000000000ull
#define LOOK_MS 1

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(pthread_t) holder; /* of the mutex; 0: nobody.  A child's thread has the same */
static bool is_for_fork;          /* of the holder */
static bool is_lost;

static bool is_ours(void) { return atomic_load(&holder) == pthread_self(); }

static void unlock(void)
{
    is_for_fork = false;
    atomic_store(&holder, (pthread_t)0);
    pthread_mutex_unlock(&mutex);
}

static bool try_for_fork(void)
{
    if (pthread_mutex_trylock(&mutex) != 0)
        return false;
    is_for_fork = true;
    atomic_store(&holder, pthread_self());
    return true;
}

/* Who forks while it loads has the lock already, and so has its child. */
static void before_fork(void)
{
    uint64_t end = clock_monotonic_ns() + FORK_WAITS_NS;
    while (!is_ours() && !try_for_fork() && clock_monotonic_ns() < end)
        (void)poll(NULL, 0, LOOK_MS);
}

static void after_fork(void)
{
    if (is_ours() && is_for_fork)
        unlock();
}

static void in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    if (is_ours()) {
        after_fork();
        return;
    }
    is_lost = true; /* it was waited for in vain */
    mutex = fresh;
    atomic_store(&holder, (pthread_t)0);
}

static void watch_forks(void) { pthread_atfork(before_fork, after_fork, in_child); }

void load_lock_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
}

void load_lock(void)
{
    load_lock_watch();
    pthread_mutex_lock(&mutex);
    atomic_store(&holder, pthread_self());
}

void load_unlock(void) { unlock(); }

enum kiln_code load_check(struct kiln_err *err)
{
    return is_lost ? kiln_fail(err, KILN_UNAVAILABLE,
                               "this process was forked from one that was loading a library, for "
                               "longer than fork waits: start a program of its own in it, or fork "
                               "before or after that")
                   : KILN_OK;
}
