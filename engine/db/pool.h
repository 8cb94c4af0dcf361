/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A pool of connections to one database file.
 *
 * Role       lets several threads read at the same time, each on a connection of its own; lets the
 *            file be exchanged under them
 * Ownership  owns the connections (db_pool_done closes them); embed it
 * Threading  take and return: any thread.  All else: one thread at a time.
 */
#include "common/err.h"

#include <pthread.h>
#include <stdbool.h>

#define DB_POOL_MAX 64u

struct db_pool_options {
    KILN_MUST_CHECK enum kiln_code (*open)(void *context, void **ret_connection,
                                           struct kiln_err *err);
    void (*close)(void *connection);
    void *context; /* borrowed; of |open| */
    unsigned max;  /* connections; DB_POOL_MAX at most */
};

struct db_pool {
    struct db_pool_options options;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    void *idle[DB_POOL_MAX]; /* owned */
    unsigned idle_count;
    unsigned opened; /* idle ones and those in use */
    unsigned max;    /* less than the options', once opening another one has failed */
    bool held;       /* acquirers block */
};

void db_pool_init(struct db_pool *pool, const struct db_pool_options *options);
/* Closes what is idle; nothing may be in use. */
void db_pool_done(struct db_pool *pool);

/* Opens |count| connections (1 at least) in place of those that were open, which are closed once
 * they have come back: acquirers block until then.  On failure the pool is as it was. */
KILN_MUST_CHECK enum kiln_code db_pool_open(struct db_pool *pool, unsigned count,
                                            struct kiln_err *err);
/* Waits until all have come back and closes them; db_pool_take then has none. */
void db_pool_close(struct db_pool *pool);
/* While it is held, acquirers block and are not refused. */
void db_pool_hold(struct db_pool *pool, bool hold);

/* An idle connection; else another one is opened, below the maximum; else waits for one.  A failure
 * to open another one only means that there are fewer.  NULL: the pool is closed. */
void *db_pool_take(struct db_pool *pool);
void db_pool_return(struct db_pool *pool, void *connection);
