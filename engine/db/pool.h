/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A pool of connections to one database file.
 *
 * Role       lets several threads read concurrently, each on its own connection, and lets the file
 *            be replaced meanwhile
 * Ownership  owns the connections (db_pool_done closes them); the caller embeds the struct
 * Threading  db_pool_take and db_pool_return: any thread. All other functions: one thread at a time
 */
#include "common/base/err.h"

#include <pthread.h>
#include <stdbool.h>

#define DB_POOL_MAX 64u

struct db_pool_options {
    KILN_MUST_CHECK enum kiln_code (*open)(void *context, void **ret_connection,
                                           struct kiln_err *err);
    void (*close)(void *connection);
    void *context;
    unsigned max;
};

struct db_pool {
    struct db_pool_options options;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    void *idle[DB_POOL_MAX];
    unsigned idle_count;
    unsigned opened;
    unsigned max; /* limit of |opened|, lowered after a failure to open; 0: the pool is closed */
    bool held;
};

void db_pool_init(struct db_pool *pool, const struct db_pool_options *options);
/* No connection may be in use. */
void db_pool_done(struct db_pool *pool);

/* Opens |count| connections, waits until all old connections are returned, and closes the old ones.
 * Meanwhile, db_pool_take waits. On failure, the pool is unchanged. */
KILN_MUST_CHECK enum kiln_code db_pool_open(struct db_pool *pool, unsigned count,
                                            struct kiln_err *err);
/* Waits until all connections are returned, then closes them. Afterwards, db_pool_take returns
 * NULL. */
void db_pool_close(struct db_pool *pool);
/* If |hold| is true, db_pool_take waits until this function is called with false. Without this
 * call, db_pool_take would return NULL while the pool is closed. */
void db_pool_hold(struct db_pool *pool, bool hold);

/* Returns NULL if the pool is closed. If no connection is idle, opens another one, or waits if the
 * pool has its maximum of connections. If opening fails, the pool continues with fewer connections
 * until one is returned. */
void *db_pool_take(struct db_pool *pool);
void db_pool_return(struct db_pool *pool, void *connection);
