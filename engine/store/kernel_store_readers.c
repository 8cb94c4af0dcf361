/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

static void destroy_all(struct store_reader *list)
{
    while (list) {
        struct store_reader *reader = list;
        list = reader->next;
        db_destroy(reader->db);
        codec_destroy(reader->codec);
        free(reader);
    }
}

static enum kiln_code add(struct kernel_store *store, enum store_access access,
                          struct store_reader **list, struct kiln_err *err)
{
    struct store_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open '%s': out of memory", store->path);
    reader->store = store;
    reader->next = *list;
    *list = reader;
    struct db_options options = store_db_options(store, access);
    enum kiln_code rc = codec_create(&reader->codec, err);
    return rc ? rc : db_open(&options, &reader->db, err);
}

enum kiln_code store_readers_open(struct kernel_store *store, enum store_access access,
                                  struct kiln_err *err)
{
    struct store_reader *list = NULL;
    for (unsigned i = 0; i < store->reader_count; i++) {
        enum kiln_code rc = add(store, access, &list, err);
        if (rc) {
            destroy_all(list);
            return rc;
        }
    }
    pthread_mutex_lock(&store->mutex);
    store->exchanging = true; /* who wants one now waits for a new one, and is not refused */
    while (store->out > 0)
        pthread_cond_wait(&store->returned, &store->mutex);
    struct store_reader *old = store->idle;
    store->idle = list;
    store->open = true;
    store->nothing_there = false;
    store->access = access;
    store->exchanging = false;
    pthread_cond_broadcast(&store->returned);
    pthread_mutex_unlock(&store->mutex);
    destroy_all(old);
    return KILN_OK;
}

void store_readers_hold(struct kernel_store *store, bool hold)
{
    pthread_mutex_lock(&store->mutex);
    store->exchanging = hold;
    pthread_cond_broadcast(&store->returned);
    pthread_mutex_unlock(&store->mutex);
}

void store_readers_close(struct kernel_store *store)
{
    pthread_mutex_lock(&store->mutex);
    store->open = false;
    pthread_cond_broadcast(&store->returned);
    while (store->out > 0)
        pthread_cond_wait(&store->returned, &store->mutex);
    struct store_reader *list = KILN_TAKE(store->idle);
    pthread_mutex_unlock(&store->mutex);
    destroy_all(list);
}

void store_readers_do_without(struct kernel_store *store)
{
    store_readers_close(store);
    pthread_mutex_lock(&store->mutex);
    store->nothing_there = true;
    pthread_mutex_unlock(&store->mutex);
}

enum kiln_code store_reader_take(struct kernel_store *store, struct store_reader **ret_reader,
                                 struct kiln_err *err)
{
    pthread_mutex_lock(&store->mutex);
    while (store->exchanging || (store->open && !store->idle))
        pthread_cond_wait(&store->returned, &store->mutex);
    struct store_reader *reader = store->open ? store->idle : NULL;
    if (reader) {
        store->idle = reader->next;
        store->out++;
    }
    bool nothing_there = !store->open && store->nothing_there;
    pthread_mutex_unlock(&store->mutex);
    if (!reader && !nothing_there)
        return kiln_fail(err, KILN_UNAVAILABLE, "'%s' is being replaced: try again", store->path);
    *ret_reader = reader;
    return KILN_OK;
}

void store_reader_return(struct store_reader *reader)
{
    if (!reader)
        return;
    struct kernel_store *store = reader->store;
    pthread_mutex_lock(&store->mutex);
    reader->next = store->idle;
    store->idle = reader;
    store->out--;
    /* Takers and the one who closes wait on the same condition. */
    pthread_cond_broadcast(&store->returned);
    pthread_mutex_unlock(&store->mutex);
}
