/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "common/base/clock.h"
#include "common/protocol/limits.h"
#include "engine/digest/sha256.h"

#include <string.h>

/* Large objects are stored in pieces, each in its own transaction. Packing and storing 64 MiB at
 * once would block all other writes for a second. All pieces of an object have the same set number.
 * The last transaction of a put stores the row of the object, which contains that number, and the
 * row of the kernel. If a put ends before that transaction, its pieces belong to no object.
 * kernel_store_tidy removes such pieces step by step. */

/* Number of pieces that one transaction removes, which takes about 5 ms. */
#define REMOVED_AT_ONCE 16u

bool store_is_large(const struct object *object) { return object->size > KERNEL_PIECE_MAX; }

void store_pieces_resume(const struct kernel_store *store, struct kernel_putting *putting)
{
    if (putting->piece_set && putting->opening == store->openings)
        return;
    putting->opening = store->openings;
    putting->piece_set = putting->packed_size = putting->raw_size = 0;
}

static enum kiln_code begin_set(struct kernel_store *store, struct kernel_putting *putting,
                                struct kiln_err *err)
{
    uint64_t last = 0;
    enum kiln_code rc = store_number(store->writer, KERNEL_LAST_PIECE_SET, &last, err);
    if (rc)
        return rc;
    putting->piece_set = last + 1;
    pthread_mutex_lock(&store->mutex);
    if (!list_holds(&putting->link))
        list_append(&store->puttings, &putting->link);
    pthread_mutex_unlock(&store->mutex);
    return KILN_OK;
}

enum kiln_code store_piece_add(struct kernel_store *store, struct kernel_putting *putting,
                               const struct packed_object *piece, struct kiln_err *err)
{
    enum kiln_code rc = putting->piece_set ? KILN_OK : begin_set(store, putting, err);
    if (rc)
        return rc;
    QUERY_AUTO struct query q = query_of(store->writer, KERNEL_ADD_PIECE);
    query_bind_u64(&q, 1, putting->piece_set);
    query_bind_u64(&q, 2, piece->codec);
    query_bind_u64(&q, 3, piece->raw_size);
    query_bind_bytes(&q, 4, piece->stored);
    rc = query_run(&q, err);
    if (rc)
        return rc;
    putting->raw_size += piece->raw_size;
    putting->packed_size += piece->stored.size;
    return KILN_OK;
}

void store_pieces_end(struct kernel_store *store, struct kernel_putting *putting, bool are_owned)
{
    pthread_mutex_lock(&store->mutex);
    list_remove(&putting->link);
    pthread_mutex_unlock(&store->mutex);
    if (putting->piece_set && !are_owned)
        atomic_store(&store->orphans.are_due, true);
    putting->piece_set = 0;
}

void kernel_store_put_abandon(struct kernel_store *store, struct kernel_putting *putting)
{
    store_pieces_end(store, putting, /* are_owned= */ false);
    putting->is_over = true;
}

static enum kiln_code unpack_piece(const struct query *q, struct codec *codec, uint64_t max,
                                   struct bytes *ret_raw, struct kiln_err *err)
{
    const struct packed_object packed = { .codec = query_u64(q, 0),
                                          .raw_size = query_u64(q, 1),
                                          .stored = query_bytes(q, 2) };
    if (packed.raw_size > max)
        return kiln_fail(err, KILN_CORRUPT, "the object's pieces have too many bytes");
    return codec_unpack(codec, &packed, ret_raw, err);
}

enum kiln_code store_read_pieces(const struct stored_row *row, struct codec *codec,
                                 const struct piece_sink *sink, struct digest *ret_digest,
                                 struct kiln_err *err)
{
    uint64_t left =
        row->packed.raw_size < LIMIT_CODE_OBJECT ? row->packed.raw_size : LIMIT_CODE_OBJECT;
    struct sha256 sum;
    sha256_init(&sum);
    QUERY_AUTO struct query q = query_of(row->db, KERNEL_PIECES);
    query_bind_u64(&q, 1, row->piece_set);
    enum kiln_code rc = KILN_OK;
    while (query_next(&q, &rc, err)) {
        struct bytes raw = { 0 };
        rc = unpack_piece(&q, codec, left, &raw, err);
        if (!rc)
            rc = sink->put(sink->context, raw, err);
        if (rc)
            return rc;
        sha256_put(&sum, raw);
        left -= raw.size;
    }
    if (!rc && left > 0)
        return kiln_fail(err, KILN_CORRUPT, "the object's pieces have too few bytes");
    *ret_digest = sha256_end(&sum);
    return rc;
}

static bool is_being_put(struct kernel_store *store, uint64_t set)
{
    bool is_found = false;
    pthread_mutex_lock(&store->mutex);
    LIST_EACH (&store->puttings, const struct kernel_putting, link, putting)
        is_found |= putting->piece_set == set && putting->opening == store->openings;
    pthread_mutex_unlock(&store->mutex);
    return is_found;
}

static enum kiln_code remove_pieces(struct kernel_store *store, uint64_t set, bool *ret_all,
                                    struct kiln_err *err)
{
    enum kiln_code rc = store_before_batch(store, err);
    if (rc)
        return rc;
    QUERY_AUTO struct query q = query_of(store->writer, KERNEL_REMOVE_PIECES);
    query_bind_u64(&q, 1, set);
    query_bind_u64(&q, 2, REMOVED_AT_ONCE);
    rc = query_run(&q, err);
    *ret_all = !rc && db_changes(store->writer) < REMOVED_AT_ONCE;
    store->vacuum_due = true;
    return rc;
}

static enum kiln_code examine_set(struct kernel_store *store, struct kiln_err *err)
{
    struct store_orphans *orphans = &store->orphans;
    uint64_t set = 0;
    bool is_owned = false, are_all = true;
    {
        QUERY_AUTO struct query q = query_of(store->writer, KERNEL_NEXT_PIECE_SET);
        query_bind_u64(&q, 1, orphans->after);
        bool row = false;
        enum kiln_code rc = query_step(&q, &row, err);
        orphans->is_scanning = !rc && row;
        if (rc || !row)
            return rc;
        set = query_u64(&q, 0);
        is_owned = query_u64(&q, 1) != 0;
    }
    enum kiln_code rc = KILN_OK;
    if (!is_owned && !is_being_put(store, set))
        rc = remove_pieces(store, set, &are_all, err);
    orphans->after = are_all ? set : orphans->after;
    return rc;
}

enum kiln_code store_remove_orphans(struct kernel_store *store, uint64_t end_ns, bool *ret_more,
                                    struct kiln_err *err)
{
    struct store_orphans *orphans = &store->orphans;
    enum kiln_code rc = KILN_OK;
    do {
        if (!orphans->is_scanning && atomic_exchange(&orphans->are_due, false)) {
            orphans->is_scanning = true;
            orphans->after = 0;
        }
        if (orphans->is_scanning)
            rc = examine_set(store, err);
    } while (!rc && orphans->is_scanning && clock_monotonic_ns() < end_ns);
    if (rc)
        atomic_store(&orphans->are_due, true);
    *ret_more = orphans->is_scanning || atomic_load(&orphans->are_due);
    return rc;
}
