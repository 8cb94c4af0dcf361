/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

static void close_reader(void *connection)
{
    struct store_reader *reader = connection;
    db_destroy(reader->db);
    codec_destroy(reader->codec);
    free(reader);
}

static enum kiln_code open_reader(void *context, void **ret_connection, struct kiln_err *err)
{
    struct kernel_store *store = context;
    struct store_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open '%s': out of memory", store->path);
    reader->store = store;
    struct db_options options = store_db_options(store, store->readers.opens_as);
    enum kiln_code rc = codec_create(&reader->codec, err);
    if (!rc)
        rc = db_open(&options, &reader->db, err);
    if (rc) {
        close_reader(reader);
        return rc;
    }
    *ret_connection = reader;
    return KILN_OK;
}

void store_readers_init(struct kernel_store *store, unsigned count)
{
    const struct db_pool_options options = {
        .open = open_reader, .close = close_reader, .context = store, .max = count
    };
    db_pool_init(&store->readers.pool, &options);
    store->readers.is_empty = true;
}

enum kiln_code store_readers_open(struct kernel_store *store, enum store_access access,
                                  struct kiln_err *err)
{
    store->readers.opens_as = access;
    enum kiln_code rc = db_pool_open(&store->readers.pool, DB_POOL_MAX, err);
    if (rc)
        return rc;
    store->readers.access = access;
    store->readers.is_empty = false;
    return KILN_OK;
}

void store_readers_close(struct kernel_store *store)
{
    db_pool_close(&store->readers.pool);
    store->readers.is_empty = true;
}

void store_readers_hold(struct kernel_store *store, bool hold)
{
    db_pool_hold(&store->readers.pool, hold);
}

enum kiln_code store_reader_take(struct kernel_store *store, struct store_reader **ret_reader,
                                 struct kiln_err *err)
{
    struct store_reader *reader = db_pool_take(&store->readers.pool);
    if (!reader && !store->readers.is_empty)
        return kiln_fail(err, KILN_UNAVAILABLE, "'%s' is being replaced: try again", store->path);
    *ret_reader = reader;
    return KILN_OK;
}

void store_reader_return(struct store_reader *reader)
{
    if (reader)
        db_pool_return(&reader->store->readers.pool, reader);
}
