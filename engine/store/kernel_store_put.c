/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "common/clock.h"
#include "common/limits.h"

#include <string.h>

/* What a kernel takes beside its object's bytes and its texts: the rows in kernel, object and
 * recency and four index entries.  Measured: see docs/formats/kernels-db.md. */
#define ROW_BYTES 512u

static size_t length(const char *text) { return text ? strlen(text) : 0; }

struct put {
    const struct kernel_record *record;
    const struct object *object;
    uint64_t row_bytes;
    uint64_t evicted;
    uint64_t object_id;
    uint64_t stored_size;
};

static enum kiln_code check_record(const struct kernel_record *r, struct kiln_err *err)
{
    const struct {
        const char *what;
        size_t size, most;
    } texts[] = {
        { "target", length(r->target), LIMIT_TARGET_TEXT },
        { "toolchain", length(r->toolchain), LIMIT_PROGRAM_NAME },
        { "program", length(r->program), LIMIT_PROGRAM_NAME },
        { "options", length(r->options), LIMIT_OPTIONS_TEXT },
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i].size > texts[i].most)
            return kiln_fail(err, KILN_INVALID,
                             "a kernel's %s has %zu characters, at most %zu are kept",
                             texts[i].what, texts[i].size, texts[i].most);
    }
    return KILN_OK;
}

static enum kiln_code find_object(struct kernel_store *store, struct put *put, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(store->writer, KERNEL_OBJECT_ID);
    query_bind_bytes(&q, 1, digest_view(&put->object->digest));
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    put->object_id = 0; /* may be left from before the file was replaced */
    if (rc || !row)
        return rc;
    if (!bytes_equal(query_bytes(&q, 2), digest_view(&put->object->digest)))
        return kiln_fail(err, KILN_CORRUPT, "the objects of '%s' are not where its index says",
                         store->path);
    put->object_id = query_u64(&q, 0);
    put->stored_size = query_u64(&q, 1);
    return KILN_OK;
}

static enum kiln_code add_object(struct kernel_store *store, struct put *put, struct kiln_err *err)
{
    OBJECT_VIEW_AUTO struct object_view view = { 0 };
    struct bytes stored = { 0 };
    enum codec_id codec = CODEC_RAW;
    enum kiln_code rc = object_view_open(put->object, &view, err);
    if (!rc)
        rc = codec_pack(store->codec, view.bytes, &stored, &codec, err);
    if (rc)
        return rc;
    if (stored.size + put->row_bytes > store->limit_bytes)
        return kiln_fail(err, KILN_FULL,
                         "a code object of %zu bytes (compressed) is larger than the whole kernel "
                         "cache may be (%llu bytes): raise its limit",
                         stored.size, (unsigned long long)store->limit_bytes);
    QUERY_AUTO struct query q = query_of(store->writer, KERNEL_ADD_OBJECT);
    query_bind_bytes(&q, 1, digest_view(&put->object->digest));
    query_bind_u64(&q, 2, codec);
    query_bind_u64(&q, 3, put->object->size);
    query_bind_u64(&q, 4, stored.size);
    query_bind_bytes(&q, 5, stored);
    rc = query_run(&q, err);
    put->object_id = db_last_id(store->writer);
    put->stored_size = stored.size;
    return rc;
}

static enum kiln_code add_kernel(struct db *db, const struct put *put, uint64_t created,
                                 uint64_t compile_ns, struct kiln_err *err)
{
    const struct kernel_record *r = put->record;
    uint8_t claim[CLAIM_SIZE];
    store_claim(&r->key, &put->object->digest, claim);
    QUERY_AUTO struct query q = query_of(db, KERNEL_ADD_KERNEL);
    query_bind_bytes(&q, 1, digest_view(&r->key));
    query_bind_u64(&q, 2, put->object_id);
    query_bind_bytes(&q, 3, bytes_of(claim, sizeof(claim)));
    query_bind_text(&q, 4, r->target);
    query_bind_text(&q, 5, r->toolchain);
    query_bind_bytes(&q, 6, digest_view(&r->toolchain_id));
    query_bind_text(&q, 7, r->program);
    query_bind_text(&q, 8, r->options);
    query_bind_u64(&q, 9, compile_ns);
    query_bind_u64(&q, 10, created);
    query_bind_u64(&q, 11, r->uid);
    query_bind_u64(&q, 12, put->row_bytes);
    return query_run(&q, err);
}

static enum kiln_code add_recency(struct db *db, uint64_t kernel, uint64_t last_used, uint64_t uses,
                                  int64_t keep, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db, KERNEL_ADD_RECENCY);
    query_bind_u64(&q, 1, kernel);
    query_bind_u64(&q, 2, last_used);
    query_bind_u64(&q, 3, uses);
    query_bind_i64(&q, 4, keep);
    return query_run(&q, err);
}

static enum kiln_code add_rows(struct kernel_store *store, struct put *put, uint64_t *ret_kernel,
                               struct kiln_err *err)
{
    const struct kernel_record *r = put->record;
    uint64_t created = store_time(r->created ? r->created : clock_wall_s());
    uint64_t last_used = r->last_used ? store_time(r->last_used) : created;
    uint64_t compile_ns = r->compile_ns ? r->compile_ns : put->object->compile_ns;
    int64_t keep = store_keep_until(last_used, compile_ns, put->stored_size);
    enum kiln_code rc = add_kernel(store->writer, put, created, compile_ns, err);
    if (rc)
        return rc;
    *ret_kernel = db_last_id(store->writer);
    return add_recency(store->writer, *ret_kernel, last_used, r->uses, keep, err);
}

static enum kiln_code put_work(struct kernel_store *store, void *context, struct kiln_err *err)
{
    struct put *put = context;
    uint64_t kernel = 0, evicted = 0;
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = transaction_begin(&t, store->writer, err);
    if (!rc)
        rc = store_run_with_key(store, KERNEL_REMOVE, &put->record->key, err);
    if (!rc)
        rc = find_object(store, put, err);
    if (!rc && !put->object_id)
        rc = add_object(store, put, err);
    if (!rc)
        rc = add_rows(store, put, &kernel, err);
    if (!rc)
        rc = store_evict(store, kernel, &evicted, err);
    if (!rc)
        rc = transaction_commit(&t, err);
    if (!rc)
        put->evicted = evicted;
    return rc;
}

enum kiln_code kernel_store_put(struct kernel_store *store, const struct kernel_record *record,
                                const struct object *object, uint64_t *ret_evicted,
                                struct kiln_err *err)
{
    enum kiln_code rc = check_record(record, err);
    if (rc)
        return rc;
    struct put put = { .record = record,
                       .object = object,
                       .row_bytes = ROW_BYTES + length(record->target) + length(record->toolchain) +
                                    length(record->program) + length(record->options) };
    rc = store_write(store, put_work, &put, err);
    if (rc)
        return kiln_while(err, "storing a kernel");
    *ret_evicted += put.evicted;
    return KILN_OK;
}
