/* SPDX-License-Identifier: MIT */
#include "libclient/load_lock.h"

#include "common/base/clock.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

/* Maximum time that fork() waits for a load.  Without a limit, fork() would wait for ever if a
 * library's constructor waits for the thread that forks. */
#define FORK_WAITS_NS 5000000000ull
#define POLL_MS 1

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
/* The thread that holds the mutex, or 0.  A forked child's thread has the id that it had in the
 * parent. */
static _Atomic(pthread_t) holder;
static bool is_for_fork;
static bool is_lost;

static bool is_held_here(void) { return atomic_load(&holder) == pthread_self(); }

static void release_lock(void)
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

/* Takes the lock for the fork, but gives up after FORK_WAITS_NS.  If the forking thread holds the
 * lock already, because a library's constructor forks, does nothing: the child then holds the lock,
 * too. */
static void before_fork(void)
{
    uint64_t end = clock_monotonic_ns() + FORK_WAITS_NS;
    while (!is_held_here() && !try_for_fork() && clock_monotonic_ns() < end)
        (void)poll(NULL, 0, POLL_MS);
}

static void after_fork(void)
{
    if (is_held_here() && is_for_fork)
        release_lock();
}

static void in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    if (is_held_here()) {
        after_fork();
        return;
    }
    is_lost = true; /* fork() stopped waiting for the holder */
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

void load_unlock(void) { release_lock(); }

enum kiln_code load_check(struct kiln_err *err)
{
    return is_lost
               ? kiln_fail(err, KILN_UNAVAILABLE,
                           "this process was forked while its parent was loading a library, and "
                           "the load took longer than fork waits: call exec in the child, or "
                           "fork before or after the load")
               : KILN_OK;
}
