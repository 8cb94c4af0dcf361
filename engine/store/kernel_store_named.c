/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include <string.h>

struct walk {
    struct kernel_store *store;
    struct store_reader *reader;
    uint32_t uid;
    const char *database_id;
    struct kernel_place *place;
    size_t left; /* kernels that may still be told */
    bool (*each)(void *context, const struct kernel_record *record, struct bytes raw);
    void *context;
    bool stopped;
};

/* MIOpen's rule: a user's own kernel goes before one of the same name and arguments that everyone
 * has. */
static enum kiln_code is_replaced(const struct walk *w, const struct kernel_record *record,
                                  bool *ret_replaced, struct kiln_err *err)
{
    struct digest own =
        kernel_name_key(w->uid, bytes_of_text(w->database_id), bytes_of_text(record->program),
                        bytes_of_text(record->options));
    QUERY_AUTO struct query q = query_of(w->reader->db, KERNEL_HAS_KEY);
    query_bind_bytes(&q, 1, digest_view(&own));
    return query_step(&q, ret_replaced, err);
}

static enum kiln_code tell(struct walk *w, const struct query *q, struct kiln_err *err)
{
    struct kernel_record record = store_record(q);
    w->place->id = record.id;
    bool replaced = false;
    enum kiln_code rc = w->place->everyones ? is_replaced(w, &record, &replaced, err) : KILN_OK;
    if (rc || replaced)
        return rc;
    struct stored_row row = { .claim = query_bytes(q, RECORD_COLUMN_COUNT),
                              .sha256 = query_bytes(q, 1),
                              .stored = query_bytes(q, RECORD_COLUMN_COUNT + 2),
                              .codec = query_u64(q, RECORD_COLUMN_COUNT + 1),
                              .raw_size = record.raw_size };
    struct digest digest;
    struct bytes raw = { 0 };
    enum damage damage = DAMAGE_NONE;
    rc = store_check_row(&row, w->reader->codec, &record.key, &digest, &raw, &damage, err);
    if (rc == KILN_NOT_FOUND)
        return KILN_OK; /* of a newer kiln: not for this one to read */
    if (rc && rc != KILN_CORRUPT)
        return rc;
    w->left--;
    if (rc)
        raw = bytes_of(NULL, 0);
    w->stopped = !w->each(w->context, &record, raw);
    return KILN_OK;
}

/* The kernels of one scope. */
static enum kiln_code walk_scope(struct walk *w, bool *ret_end, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(w->reader->db, KERNEL_NAMED);
    query_bind_text(&q, 1, w->database_id);
    query_bind_i64(&q, 2, w->place->everyones ? -1 : (int64_t)w->uid);
    query_bind_u64(&q, 3, w->place->id);
    query_bind_i64(&q, 4, -1);
    enum kiln_code rc = KILN_OK;
    bool row = true;
    while (!rc && row && w->left > 0 && !w->stopped) {
        rc = query_step(&q, &row, err);
        if (!rc && row)
            rc = tell(w, &q, err);
    }
    *ret_end = !rc && !row;
    return store_note_read(w->store, rc);
}

enum kiln_code kernel_store_each_named(
    struct kernel_store *store, uint32_t uid, const char *database_id, struct kernel_place *place,
    size_t count, bool (*each)(void *context, const struct kernel_record *record, struct bytes raw),
    void *context, bool *ret_end, struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    bool end = !rc && !reader;
    struct walk w = { .store = store,
                      .reader = reader,
                      .uid = uid,
                      .database_id = database_id,
                      .place = place,
                      .left = count,
                      .each = each,
                      .context = context };
    while (!rc && !end && w.left > 0 && !w.stopped) {
        rc = walk_scope(&w, &end, err);
        if (rc || !end || place->everyones)
            continue;
        *place = (struct kernel_place){ .everyones = true };
        end = false;
    }
    if (!rc)
        *ret_end = end;
    return rc;
}
