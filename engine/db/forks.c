/* SPDX-License-Identifier: MIT */
#include "engine/db/forks.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

/* In SQLite's order: each is taken while those before may be held, never the other way round.  A
 * file that connections share is opened under OPEN: its VFS looks for it among the open ones (VFS1)
 * and SQLite among the shared ones (MAIN).  A VFS may draw a name of a temporary file (PRNG) under
 * its lock, and the first random number asks for the VFS (MAIN).  Memory (LRU, PMEM, MEM) is had
 * under all of them.  tests/unit/engine/db/forks.c watches them. */
static const int locks[] = { SQLITE_MUTEX_STATIC_OPEN, SQLITE_MUTEX_STATIC_VFS1,
                             SQLITE_MUTEX_STATIC_VFS2, SQLITE_MUTEX_STATIC_VFS3,
                             SQLITE_MUTEX_STATIC_PRNG, SQLITE_MUTEX_STATIC_MAIN,
                             SQLITE_MUTEX_STATIC_LRU,  SQLITE_MUTEX_STATIC_PMEM,
                             SQLITE_MUTEX_STATIC_MEM };
#define LOCKS (sizeof(locks) / sizeof(locks[0]))

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static bool has_started; /* it has locks of its own besides while it starts */

static void before_fork(void)
{
    pthread_mutex_lock(&starting);
    for (size_t i = 0; has_started && i < LOCKS; i++)
        sqlite3_mutex_enter(sqlite3_mutex_alloc(locks[i]));
}

static void after_fork(void)
{
    for (size_t i = LOCKS; has_started && i-- > 0;)
        sqlite3_mutex_leave(sqlite3_mutex_alloc(locks[i]));
    pthread_mutex_unlock(&starting);
}

static void watch(void) { pthread_atfork(before_fork, after_fork, after_fork); }

void db_watch_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
    pthread_mutex_lock(&starting);
    if (!has_started) /* where it cannot start, opening a file says why */
        has_started = sqlite3_initialize() == SQLITE_OK;
    pthread_mutex_unlock(&starting);
}
