/* SPDX-License-Identifier: MIT */
#include "engine/db/pool.h"

#include <string.h>

void db_pool_init(struct db_pool *pool, const struct db_pool_options *options)
{
    *pool = (struct db_pool){ .options = *options };
    if (pool->options.max > DB_POOL_MAX)
        pool->options.max = DB_POOL_MAX;
    if (pool->options.max == 0)
        pool->options.max = 1;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->changed, NULL);
}

static void close_connections(struct db_pool *pool, void **connections, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        pool->options.close(connections[i]);
}

void db_pool_done(struct db_pool *pool)
{
    close_connections(pool, pool->idle, pool->idle_count);
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->mutex);
}

/* Waits until all connections are idle, then removes them from the pool. The caller holds the
 * mutex. */
static unsigned take_all(struct db_pool *pool, void *connections[DB_POOL_MAX])
{
    while (pool->idle_count < pool->opened)
        pthread_cond_wait(&pool->changed, &pool->mutex);
    unsigned count = pool->idle_count;
    memcpy(connections, pool->idle, count * sizeof(connections[0]));
    pool->idle_count = pool->opened = 0;
    return count;
}

enum kiln_code db_pool_open(struct db_pool *pool, unsigned count, struct kiln_err *err)
{
    void *fresh[DB_POOL_MAX], *old[DB_POOL_MAX];
    unsigned wanted = count < pool->options.max ? count : pool->options.max;
    for (unsigned i = 0; i < wanted; i++) {
        enum kiln_code rc = pool->options.open(pool->options.context, &fresh[i], err);
        if (rc) {
            close_connections(pool, fresh, i);
            return rc;
        }
    }
    pthread_mutex_lock(&pool->mutex);
    pool->held = true;
    unsigned old_count = take_all(pool, old);
    memcpy(pool->idle, fresh, wanted * sizeof(fresh[0]));
    pool->idle_count = pool->opened = wanted;
    pool->max = pool->options.max;
    pool->held = false;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->mutex);
    close_connections(pool, old, old_count);
    return KILN_OK;
}

void db_pool_close(struct db_pool *pool)
{
    void *old[DB_POOL_MAX];
    pthread_mutex_lock(&pool->mutex);
    pool->max = 0;
    pthread_cond_broadcast(&pool->changed);
    unsigned count = take_all(pool, old);
    pthread_mutex_unlock(&pool->mutex);
    close_connections(pool, old, count);
}

void db_pool_hold(struct db_pool *pool, bool hold)
{
    pthread_mutex_lock(&pool->mutex);
    pool->held = hold;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->mutex);
}

/* Waits until a connection is idle or may be opened. If |ret_opens|, the caller must open one. The
 * caller holds the mutex. */
static void *take_idle(struct db_pool *pool, bool *ret_opens)
{
    while (pool->held || (pool->max > 0 && pool->idle_count == 0 && pool->opened >= pool->max))
        pthread_cond_wait(&pool->changed, &pool->mutex);
    *ret_opens = pool->max > 0 && pool->idle_count == 0;
    if (pool->max == 0)
        return NULL;
    if (*ret_opens)
        pool->opened++;
    return *ret_opens ? NULL : pool->idle[--pool->idle_count];
}

/* Opens the connection that take_idle has already counted in |opened|. The caller must not hold the
 * mutex, because opening takes long. */
static void *open_another(struct db_pool *pool)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    void *connection = NULL;
    if (pool->options.open(pool->options.context, &connection, &ignored) == KILN_OK)
        return connection;
    pthread_mutex_lock(&pool->mutex);
    pool->opened--;
    if (pool->opened < pool->max) /* do not try to open more connections until one is returned */
        pool->max = pool->opened;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

void *db_pool_take(struct db_pool *pool)
{
    for (bool opens = true; opens;) {
        pthread_mutex_lock(&pool->mutex);
        void *connection = take_idle(pool, &opens);
        pthread_mutex_unlock(&pool->mutex);
        if (!connection && opens)
            connection = open_another(pool);
        if (connection)
            return connection;
    }
    return NULL;
}

void db_pool_return(struct db_pool *pool, void *connection)
{
    pthread_mutex_lock(&pool->mutex);
    pool->idle[pool->idle_count++] = connection;
    if (pool->max > 0) /* try to open more again: memory or descriptors may be available */
        pool->max = pool->options.max;
    /* Wakes all waiting threads, because some threads wait for one connection, and one thread may
     * wait for all connections. */
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->mutex);
}
