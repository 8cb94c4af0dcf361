/* SPDX-License-Identifier: MIT */
#include "engine/db/forks.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

/* In the order in which SQLite takes them, each while it may hold those before. */
static const int locks[] = { SQLITE_MUTEX_STATIC_MAIN, SQLITE_MUTEX_STATIC_VFS1,
                             SQLITE_MUTEX_STATIC_VFS2, SQLITE_MUTEX_STATIC_VFS3,
                             SQLITE_MUTEX_STATIC_OPEN, SQLITE_MUTEX_STATIC_LRU,
                             SQLITE_MUTEX_STATIC_PMEM, SQLITE_MUTEX_STATIC_PRNG,
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
