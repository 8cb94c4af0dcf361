/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "common/base/clock.h"
#include "common/base/units.h"
#include "common/protocol/limits.h"

#include <stdio.h>
#include <string.h>

/* Bytes of a kernel's rows and index entries, without its texts (docs/formats/kernels-db.md). */
#define ROW_BYTES 512u
#define STEP_NS 20000000u
#define VERSION_MAX 64u
/* Maximum compile time that is stored for a private kernel. Most compiles take less. The user
 * reports this time: if the user could claim years, other users' kernels would be evicted first. */
#define COMPILE_NS_PRIVATE_MAX 1000000000u

static size_t text_length(const char *text) { return text ? strlen(text) : 0; }

struct put {
    struct kernel_putting *putting;
    const struct kernel_record *record;
    const struct object *object;
    bool is_import;
    bool again;
    bool are_owned;
    struct object_view view; /* stays open, because |stored| may point into the view */
    struct bytes stored;     /* the packed object; borrowed from the codec */
    enum codec_id codec;
    uint64_t texts_size;
    uint64_t object_id;
    uint64_t
        unreadable_id; /* the id of the object if it is stored with an unknown codec; otherwise 0 */
    uint64_t stored_size;
    uint64_t need;
    bool pinned;
    uint64_t
        before_bytes; /* bytes of the replaced kernel if it counts toward the same user's quota */
    enum kiln_code refused; /* KILN_FULL: the limit or the quota does not allow the kernel;
                             * KILN_BUSY: the store is still shrinking; KILN_OK: not refused */
    char why[400];
};

static enum kiln_code check_record(const struct kernel_record *r, uint64_t *ret_texts_size,
                                   struct kiln_err *err)
{
    bool is_named = text_length(r->database_id) > 0;
    const struct {
        const char *what;
        size_t size, max;
    } texts[] = {
        { "target", text_length(r->target), LIMIT_TARGET_TEXT },
        { "toolchain", text_length(r->toolchain), LIMIT_PROGRAM_NAME },
        { "program", text_length(r->program), is_named ? LIMIT_NAMED_TEXT : LIMIT_PROGRAM_NAME },
        { "options", text_length(r->options), is_named ? LIMIT_NAMED_TEXT : LIMIT_OPTIONS_TEXT },
        { "database id", text_length(r->database_id), VERSIONED_ID_MAX - 1 },
        { "package", text_length(r->package), LIMIT_PROGRAM_NAME },
        { "version", text_length(r->version), VERSION_MAX },
    };
    uint64_t size = 0;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        size += texts[i].size;
        if (texts[i].size > texts[i].max)
            return kiln_fail(err, KILN_INVALID,
                             "a kernel's %s has %zu characters, but at most %zu can be stored",
                             texts[i].what, texts[i].size, texts[i].max);
    }
    *ret_texts_size = size;
    return KILN_OK;
}

static enum kiln_code find_object(struct kernel_store *store, struct put *put, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(store->writer, KERNEL_OBJECT_ID);
    query_bind_bytes(&q, 1, digest_view(&put->object->digest));
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    put->object_id = put->unreadable_id = 0; /* the ids may belong to a replaced file */
    if (rc || !row)
        return rc;
    if (!bytes_equal(query_bytes(&q, 2), digest_view(&put->object->digest)))
        return kiln_fail(err, KILN_CORRUPT, "the index of objects in '%s' disagrees with its table",
                         store->path);
    if (codec_knows(query_u64(&q, 3)))
        put->object_id = query_u64(&q, 0);
    else
        put->unreadable_id = query_u64(&q, 0);
    put->stored_size = query_u64(&q, 1);
    return KILN_OK;
}

static enum kiln_code pack_object(struct kernel_store *store, struct put *put, struct kiln_err *err)
{
    if (put->stored.data)
        return KILN_OK;
    enum kiln_code rc = object_view_open(put->object, &put->view, err);
    if (!rc)
        rc = codec_pack(store->codec, put->view.bytes, &put->stored, &put->codec, err);
    return rc;
}

static enum kiln_code find_or_pack(struct kernel_store *store, struct put *put,
                                   struct kiln_err *err)
{
    enum kiln_code rc = find_object(store, put, err);
    if (rc || put->object_id)
        return rc;
    if (!store_is_large(put->object))
        rc = pack_object(store, put, err);
    put->stored_size = put->putting->packed_size + put->stored.size;
    return rc;
}

/* Removes an object that only another version of kiln can read, and the object's kernels. The new
 * object has the same digest, and the store can have only one object with a digest. */
static enum kiln_code remove_unreadable(struct kernel_store *store, const struct put *put,
                                        struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(store->writer, KERNEL_REMOVE_OF_OBJECT);
    query_bind_u64(&q, 1, put->unreadable_id);
    return query_run(&q, err);
}

static enum kiln_code add_object(struct kernel_store *store, struct put *put, struct kiln_err *err)
{
    const bool is_large = store_is_large(put->object);
    enum kiln_code rc = is_large ? KILN_OK : pack_object(store, put, err);
    if (rc)
        return rc;
    put->stored_size = is_large ? put->putting->packed_size : put->stored.size;
    QUERY_AUTO struct query q = query_of(store->writer, KERNEL_ADD_OBJECT);
    query_bind_bytes(&q, 1, digest_view(&put->object->digest));
    query_bind_u64(&q, 2, put->codec);
    query_bind_u64(&q, 3, put->object->size);
    query_bind_u64(&q, 4, put->stored_size);
    query_bind_bytes(&q, 5, put->stored);
    query_bind_u64(&q, 6, is_large ? put->putting->piece_set : 0);
    rc = query_run(&q, err);
    put->object_id = db_last_id(store->writer);
    return rc;
}

static struct bytes known_digest(const struct digest *digest)
{
    return digest_is_known(digest) ? digest_view(digest) : (struct bytes){ 0 };
}

static uint64_t counted_row_bytes(const struct put *put) { return ROW_BYTES + put->texts_size; }

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
    query_bind_u64(&q, 12, counted_row_bytes(put));
    query_bind_i64(&q, 13, store_scope_number(kernel_record_scope(r)));
    query_bind_text(&q, 14, r->database_id);
    query_bind_text(&q, 15, r->package);
    query_bind_text(&q, 16, r->version);
    query_bind_bytes(&q, 17, known_digest(&r->source_id));
    query_bind_bytes(&q, 18, known_digest(&r->headers_id));
    query_bind_u64(&q, 19, r->kind);
    query_bind_bytes(&q, 20, known_digest(&r->client_key));
    return query_run(&q, err);
}

static uint64_t counted_compile_ns(const struct kernel_record *record, uint64_t compile_ns)
{
    bool is_too_long = record->is_private && compile_ns > COMPILE_NS_PRIVATE_MAX;
    return is_too_long ? COMPILE_NS_PRIVATE_MAX : compile_ns;
}

static enum kiln_code add_rows(struct kernel_store *store, const struct put *put,
                               struct kiln_err *err)
{
    const struct kernel_record *r = put->record;
    uint64_t created = store_time(r->created ? r->created : clock_wall_s());
    uint64_t last_used = r->last_used ? store_time(r->last_used) : created;
    uint64_t compile_ns = r->compile_ns ? r->compile_ns : put->object->compile_ns;
    enum kiln_code rc = add_kernel(store->writer, put, created, compile_ns, err);
    if (rc)
        return rc;
    QUERY_AUTO struct query q = query_of(store->writer, KERNEL_ADD_RECENCY);
    query_bind_u64(&q, 1, db_last_id(store->writer));
    query_bind_u64(&q, 2, last_used);
    query_bind_u64(&q, 3, r->uses);
    query_bind_i64(&q, 4,
                   store_keep_until(last_used, counted_compile_ns(r, compile_ns), put->stored_size,
                                    text_length(r->database_id) > 0));
    query_bind_u64(&q, 5, r->uid);
    query_bind_u64(&q, 6, put->pinned);
    query_bind_i64(&q, 7, store_scope_number(kernel_record_scope(r)));
    return query_run(&q, err);
}

static enum kiln_code read_replaced(struct kernel_store *store, struct put *put,
                                    struct kiln_err *err)
{
    put->pinned = put->record->pinned;
    put->before_bytes = 0;
    QUERY_AUTO struct query q = query_of(store->writer, KERNEL_BEFORE);
    query_bind_bytes(&q, 1, digest_view(&put->record->key));
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (rc || !row)
        return rc;
    put->pinned |= query_u64(&q, 0) != 0;
    if (query_u64(&q, 1) == put->record->uid)
        put->before_bytes = query_u64(&q, 2);
    return KILN_OK;
}

static enum kiln_code refuse_put(struct put *put, enum kiln_code code, const char *why)
{
    put->refused = code;
    snprintf(put->why, sizeof(put->why), "%s", why);
    return KILN_OK;
}

static enum kiln_code refuse_quota(const struct kernel_store *store, struct put *put, uint64_t has,
                                   const char *addition)
{
    char why[sizeof(put->why)];
    char has_text[UNITS_TEXT_MAX], quota[UNITS_TEXT_MAX], wants[UNITS_TEXT_MAX];
    snprintf(why, sizeof(why),
             "user %u's kernels use %s of the quota of %s, and this one needs %s%s: remove your "
             "private kernels with 'kilnctl clear --own', or have an administrator run "
             "'kilnctl clear --uid %u' or raise cache_limit_per_uid",
             (unsigned)put->record->uid, units_size(has, has_text),
             units_size(store->quota_bytes_uid, quota),
             units_size(counted_row_bytes(put) + put->stored_size, wants), addition,
             (unsigned)put->record->uid);
    return refuse_put(put, KILN_FULL, why);
}

static enum kiln_code usage_of_uid(struct kernel_store *store, uint32_t uid, uint64_t *ret_bytes,
                                   struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(store->writer, KERNEL_USAGE_OF_UID);
    query_bind_u64(&q, 1, uid);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (!rc)
        *ret_bytes = row ? query_u64(&q, 0) : 0;
    return rc;
}

static enum kiln_code check_quota(struct kernel_store *store, struct put *put, struct kiln_err *err)
{
    if (!store->quota_bytes_uid)
        return KILN_OK;
    uint64_t wants = counted_row_bytes(put) + put->stored_size, has = 0;
    enum kiln_code rc = usage_of_uid(store, put->record->uid, &has, err);
    if (rc)
        return rc;
    if (wants > store->quota_bytes_uid)
        return refuse_quota(store, put, has, ", more than all of it");
    if (put->is_import && has + wants > store->quota_bytes_uid + put->before_bytes)
        return refuse_quota(store, put, has, "");
    return KILN_OK;
}

static enum kiln_code evict_of_user(struct kernel_store *store, struct put *put, uint64_t *evicted,
                                    struct kiln_err *err)
{
    const uint64_t wants = counted_row_bytes(put) + put->stored_size;
    const uint64_t end_ns = clock_monotonic_ns() + STEP_NS;
    for (;;) {
        uint64_t has = 0;
        bool gone = false;
        enum kiln_code rc = usage_of_uid(store, put->record->uid, &has, err);
        if (!rc)
            rc = read_replaced(store, put, err);
        if (rc || has + wants <= store->quota_bytes_uid + put->before_bytes)
            return rc;
        put->again = *evicted > 0 && clock_monotonic_ns() >= end_ns;
        if (put->again)
            return KILN_OK;
        rc = store_evict_one(store, &put->record->uid, &gone, err);
        if (!rc && !gone)
            rc = refuse_quota(store, put, has, ", and the rest is pinned");
        if (rc || put->refused)
            return rc;
        ++*evicted;
    }
}

static enum kiln_code enforce_quota(struct kernel_store *store, struct put *put,
                                    struct kiln_err *err)
{
    uint64_t evicted = 0;
    if (!store->quota_bytes_uid)
        return KILN_OK;
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = transaction_begin(&t, store->writer, err);
    if (!rc)
        rc = evict_of_user(store, put, &evicted, err);
    if (!rc)
        rc = transaction_commit(&t, err);
    if (rc)
        return rc;
    put->putting->evicted += evicted;
    store->quota_evictions += evicted;
    store->vacuum_due |= evicted > 0;
    return KILN_OK;
}

static enum kiln_code check_share(struct kernel_store *store, struct store_own *own,
                                  struct kiln_err *err)
{
    uint32_t heaviest = 0;
    bool any = false;
    enum kiln_code rc = store_find_heaviest(store, &heaviest, &any, err);
    own->shared_too = any && heaviest == own->uid;
    return rc;
}

static enum kiln_code make_space(struct kernel_store *store, struct put *put,
                                 struct store_wanted *wanted, struct kiln_err *err)
{
    struct store_space_result space = { 0 };
    struct store_own own = { .uid = put->record->uid, .before = put->record->last_used };
    bool own_only = put->is_import && put->record->is_private;
    put->need = wanted->need;
    wanted->own = own_only ? &own : NULL;
    enum kiln_code rc = own_only ? check_share(store, &own, err) : KILN_OK;
    if (!rc)
        rc = store_make_space(store, wanted, &space, err);
    put->putting->evicted += space.evicted;
    put->again |= space.again;
    if (!rc && (space.never || space.later))
        return refuse_put(put, space.never ? KILN_FULL : KILN_BUSY, space.why);
    return rc;
}

static bool lacks_pieces(const struct put *put)
{
    return !put->object_id && store_is_large(put->object) &&
           put->putting->raw_size < put->object->size;
}

static enum kiln_code pack_piece(struct kernel_store *store, struct put *put,
                                 struct packed_object *ret_piece, struct kiln_err *err)
{
    const uint64_t at = put->putting->raw_size, left = put->object->size - at;
    enum kiln_code rc = KILN_OK;
    if (!put->view.bytes.data)
        rc = object_view_open(put->object, &put->view, err);
    if (rc)
        return rc;
    enum codec_id codec;
    struct bytes raw = bytes_of((const uint8_t *)put->view.bytes.data + at,
                                left < KERNEL_PIECE_MAX ? left : KERNEL_PIECE_MAX);
    rc = codec_pack(store->codec, raw, &ret_piece->stored, &codec, err);
    ret_piece->codec = codec;
    ret_piece->raw_size = raw.size;
    return rc;
}

/* Stores the next piece. If kernels must be evicted for it, first checks that the whole object
 * would fit. In this check, the pieces that follow count uncompressed, because their compressed
 * sizes are not known yet. */
static enum kiln_code put_piece(struct kernel_store *store, struct put *put, struct kiln_err *err)
{
    struct kernel_putting *putting = put->putting;
    struct packed_object piece;
    enum kiln_code rc = pack_piece(store, put, &piece, err);
    if (rc)
        return rc;
    put->stored_size = putting->packed_size + piece.stored.size;
    rc = check_quota(store, put, err);
    if (rc || put->refused)
        return rc;
    const uint64_t rest = put->object->size - putting->raw_size - piece.raw_size;
    struct store_wanted wanted = {
        .need = store_need(piece.stored.size, put->texts_size),
        .whole = store_need(put->stored_size + rest, put->texts_size),
    };
    rc = make_space(store, put, &wanted, err);
    if (!rc && !put->refused && !put->again)
        rc = store_piece_add(store, putting, &piece, err);
    put->again = true;
    return rc;
}

/* Removes the kernel that the new one replaces. If both have the same object, only changes the old
 * kernel's key, so that the object has a kernel until the new row is added. */
static enum kiln_code remove_replaced(struct kernel_store *store, struct put *put,
                                      struct kiln_err *err)
{
    const struct digest *key = &put->record->key;
    enum kiln_code rc = find_object(store, put, err);
    if (!rc && put->object_id)
        return store_run_with_key(store, KERNEL_SET_ASIDE, key, err);
    if (!rc)
        rc = store_run_with_key(store, KERNEL_REMOVE, key, err);
    return rc ? rc : find_object(store, put, err);
}

static enum kiln_code put_rows(struct kernel_store *store, struct put *put, struct kiln_err *err)
{
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = transaction_begin(&t, store->writer, err);
    if (!rc)
        rc = remove_replaced(store, put, err);
    put->again = !rc && lacks_pieces(put); /* enforcing the quota has evicted the stored object, so
                                            * it must be stored again */
    if (rc || put->again)
        return rc;
    if (put->unreadable_id)
        rc = remove_unreadable(store, put, err);
    const bool is_added = !put->object_id;
    if (!rc && is_added)
        rc = add_object(store, put, err);
    if (!rc)
        rc = add_rows(store, put, err);
    if (!rc && !is_added)
        rc = store_run_with_key(store, KERNEL_REMOVE_ASIDE, &put->record->key, err);
    if (!rc)
        rc = transaction_commit(&t, err);
    if (rc)
        return rc;
    put->are_owned = is_added;
    store->kept++;
    store->pinned.is_known &= !put->pinned;
    return KILN_OK;
}

static enum kiln_code prepare_rows(struct kernel_store *store, struct put *put,
                                   struct kiln_err *err)
{
    const bool has_object = put->object_id != 0, is_whole = !store_is_large(put->object);
    const uint64_t evicted = put->putting->evicted;
    struct store_wanted wanted = {
        .need = store_need(!has_object && is_whole ? put->stored_size : 0, put->texts_size),
    };
    wanted.whole = wanted.need;
    enum kiln_code rc = make_space(store, put, &wanted, err);
    put->again |= has_object && put->putting->evicted > evicted;
    if (!rc && !put->refused && !put->again)
        rc = enforce_quota(store, put, err);
    return rc;
}

static enum kiln_code put_work(struct kernel_store *store, void *context, struct kiln_err *err)
{
    struct put *put = context;
    put->refused = KILN_OK;
    put->again = put->are_owned = false;
    store_pieces_resume(store, put->putting);
    enum kiln_code rc = read_replaced(store, put, err);
    if (!rc)
        rc = find_or_pack(store, put, err);
    if (!rc && lacks_pieces(put))
        return put_piece(store, put, err);
    if (!rc)
        rc = check_quota(store, put, err);
    if (!rc && !put->refused)
        rc = prepare_rows(store, put, err);
    return rc || put->refused || put->again ? rc : put_rows(store, put, err);
}

enum kiln_code kernel_store_put_some(struct kernel_store *store, struct kernel_putting *putting,
                                     struct kiln_err *err)
{
    struct put put = { .putting = putting,
                       .record = putting->record,
                       .object = putting->object,
                       .is_import = putting->is_import };
    enum kiln_code rc = check_record(put.record, &put.texts_size, err);
    if (!rc)
        rc = store_write(store, put.is_import ? STORE_AWAITED : STORE_BACKGROUND, put_work, &put,
                         err);
    if (rc == KILN_FULL)
        store->retry.wanted = put.need;
    object_view_done(&put.view);
    /* A put that is refused with KILN_BUSY, because the store is still shrinking, returns KILN_OK
     * although it stores nothing. Only an import returns the failure. */
    if (!rc && put.refused && (put.is_import || put.refused != KILN_BUSY))
        rc = kiln_fail(err, put.refused, "%s", put.why);
    putting->is_over = rc || put.refused || !put.again;
    if (putting->is_over)
        store_pieces_end(store, putting, put.are_owned);
    return rc ? kiln_while(err, put.is_import ? "importing a kernel" : "storing a kernel")
              : KILN_OK;
}

static enum kiln_code put_all(struct kernel_store *store, struct kernel_putting *putting,
                              uint64_t *ret_evicted, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    while (!rc && !putting->is_over)
        rc = kernel_store_put_some(store, putting, err);
    if (!rc)
        *ret_evicted += putting->evicted;
    return rc;
}

enum kiln_code kernel_store_put(struct kernel_store *store, const struct kernel_record *record,
                                const struct object *object, uint64_t *ret_evicted,
                                struct kiln_err *err)
{
    struct kernel_putting putting = { .record = record, .object = object };
    return put_all(store, &putting, ret_evicted, err);
}

enum kiln_code kernel_store_import(struct kernel_store *store, const struct kernel_record *record,
                                   const struct object *object, uint64_t *ret_evicted,
                                   struct kiln_err *err)
{
    struct kernel_putting putting = { .record = record, .object = object, .is_import = true };
    return put_all(store, &putting, ret_evicted, err);
}

uint64_t kernel_store_stored_count(const struct kernel_store *store) { return store->kept; }

uint64_t kernel_store_quota_evictions(const struct kernel_store *store)
{
    return store->quota_evictions;
}
