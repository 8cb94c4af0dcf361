/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include <stdio.h>
#include <string.h>

struct walk {
    struct kernel_store *store;
    struct store_reader *reader;
    const struct kernel_export *kernels;
    struct kernel_position *position;
    size_t left;
    struct buffer texts;
    struct buffer object;
    bool stopped;
};

struct found_kernel {
    struct kernel_record record;
    struct bytes raw;
    bool found;
    bool skipped;
};

/* Returns whether a private kernel with the same name and arguments replaces |record|, as in
 * MIOpen. */
static enum kiln_code is_replaced(const struct walk *w, const struct kernel_record *record,
                                  bool *ret_replaced, struct kiln_err *err)
{
    struct digest own =
        kernel_name_key(w->kernels->uid, bytes_of_text(w->kernels->database_id),
                        bytes_of_text(record->program), bytes_of_text(record->options));
    QUERY_AUTO struct query q = query_of(w->reader->db, KERNEL_HAS_KEY);
    query_bind_bytes(&q, 1, digest_view(&own));
    return query_step(&q, ret_replaced, err);
}

/* Copies the texts of |r|, which are valid only until the query ends. */
static enum kiln_code copy_texts(struct walk *w, struct kernel_record *r, struct kiln_err *err)
{
    const char **const texts[] = { &r->target,      &r->toolchain, &r->program, &r->options,
                                   &r->database_id, &r->package,   &r->version };
    const size_t count = sizeof(texts) / sizeof(texts[0]);
    w->texts.size = 0;
    for (size_t i = 0; i < count; i++)
        buffer_put(&w->texts, *texts[i], strlen(*texts[i]) + 1);
    if (w->texts.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot copy the record of a kernel: out of memory");
    const char *at = (const char *)w->texts.data;
    for (size_t i = 0; i < count; at += strlen(at) + 1, i++)
        *texts[i] = at;
    return KILN_OK;
}

static enum kiln_code add_piece(void *context, struct bytes piece, struct kiln_err *err)
{
    struct walk *w = context;
    buffer_put(&w->object, piece.data, piece.size);
    return w->object.failed ? kiln_fail(err, KILN_NO_MEMORY, "cannot copy a kernel: out of memory")
                            : KILN_OK;
}

/* Copies an object that is stored uncompressed, because |stored| is valid only until the query
 * ends. A compressed object was unpacked into the codec's memory, and needs no copy. */
static enum kiln_code copy_object(struct walk *w, struct bytes stored, struct bytes *raw,
                                  struct kiln_err *err)
{
    if (raw->size == 0 || raw->data != stored.data)
        return KILN_OK;
    enum kiln_code rc = add_piece(w, *raw, err);
    *raw = rc ? *raw : buffer_view(&w->object);
    return rc;
}

static enum kiln_code check_kernel(struct walk *w, const struct query *q, struct found_kernel *t,
                                   struct kiln_err *err)
{
    const struct stored_row row = { .key = &t->record.key,
                                    .claim = query_bytes(q, RECORD_COLUMN_COUNT),
                                    .sha256 = query_bytes(q, 1),
                                    .packed = { .codec = query_u64(q, RECORD_COLUMN_COUNT + 1),
                                                .raw_size = t->record.raw_size,
                                                .stored = query_bytes(q, RECORD_COLUMN_COUNT + 2) },
                                    .piece_set = query_u64(q, RECORD_COLUMN_COUNT + 3),
                                    .db = w->reader->db };
    const struct piece_sink sink = { add_piece, w };
    struct checked_row checked;
    w->object.size = 0;
    enum kiln_code rc = store_check_row(&row, w->reader->codec, &sink, &checked, err);
    t->skipped = rc == KILN_NOT_FOUND;
    if (rc == KILN_NOT_FOUND || rc == KILN_CORRUPT)
        return KILN_OK;
    if (rc)
        return rc;
    if (row.piece_set) {
        t->raw = buffer_view(&w->object);
        return KILN_OK;
    }
    t->raw = checked.raw;
    return copy_object(w, row.packed.stored, &t->raw, err);
}

/* Ends the query before it returns, because |each| may take long, and the write-ahead log cannot
 * be truncated while a query is open. */
static enum kiln_code read_next(struct walk *w, struct found_kernel *t, struct kiln_err *err)
{
    *t = (struct found_kernel){ 0 };
    QUERY_AUTO struct query q = query_of(w->reader->db, KERNEL_NAMED);
    query_bind_text(&q, 1, w->kernels->database_id);
    query_bind_i64(&q, 2, w->position->is_public ? -1 : (int64_t)w->kernels->uid);
    query_bind_u64(&q, 3, w->position->id);
    query_bind_i64(&q, 4, 1);
    enum kiln_code rc = query_step(&q, &t->found, err);
    if (rc || !t->found)
        return rc;
    t->record = store_record(&q);
    w->position->id = t->record.id;
    if (w->position->is_public)
        rc = is_replaced(w, &t->record, &t->skipped, err);
    if (!rc && !t->skipped)
        rc = check_kernel(w, &q, t, err);
    return rc || t->skipped ? rc : copy_texts(w, &t->record, err);
}

static enum kiln_code walk_scope(struct walk *w, bool *ret_end, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    struct found_kernel next = { .found = true };
    while (!rc && next.found && w->left > 0 && !w->stopped) {
        rc = read_next(w, &next, err);
        w->left--;
        if (rc || !next.found || next.skipped)
            continue;
        w->stopped = !w->kernels->each(w->kernels->context, &next.record, next.raw);
    }
    *ret_end = !rc && !next.found;
    return store_note_read(w->store, rc);
}

enum kiln_code kernel_store_each_named(struct kernel_store *store,
                                       const struct kernel_export *kernels,
                                       struct kernel_position *position, bool *ret_end,
                                       struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    bool end = !rc && !reader;
    struct walk w = { .store = store,
                      .reader = reader,
                      .kernels = kernels,
                      .position = position,
                      .left = kernels->max };
    buffer_init(&w.texts, LIMIT_CODE_OBJECT);
    buffer_init(&w.object, LIMIT_CODE_OBJECT);
    while (!rc && !end && w.left > 0 && !w.stopped) {
        rc = walk_scope(&w, &end, err);
        if (rc || !end || position->is_public)
            continue;
        *position = (struct kernel_position){ .is_public = true };
        end = false;
    }
    buffer_done(&w.texts);
    buffer_done(&w.object);
    if (!rc)
        *ret_end = end;
    return rc;
}

struct versions {
    struct store_reader *reader;
    char plain[VERSIONED_ID_MAX - 2];
    char first[VERSIONED_ID_MAX]; /* "gfx90a68@": sorts before every version */
    char end[VERSIONED_ID_MAX];   /* "gfx90a68A": sorts after every version */
    char only[VERSIONED_ID_MAX];
    bool several;
};

static bool name_versions(struct versions *v, struct bytes database_id)
{
    if (database_id.size >= sizeof(v->plain))
        return false;
    snprintf(v->plain, sizeof(v->plain), "%.*s", (int)database_id.size,
             (const char *)database_id.data);
    snprintf(v->first, sizeof(v->first), "%s@", v->plain);
    snprintf(v->end, sizeof(v->end), "%s%c", v->plain, '@' + 1);
    return true;
}

static enum kiln_code has_id(const struct versions *v, int64_t scope, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(v->reader->db, KERNEL_HAS_ID);
    bool has = false;
    query_bind_i64(&q, 1, scope);
    query_bind_text(&q, 2, v->plain);
    enum kiln_code rc = query_step(&q, &has, err);
    return rc || has ? rc : KILN_NOT_FOUND;
}

static enum kiln_code next_id(const struct versions *v, int64_t scope, const char *after,
                              char ret_id[VERSIONED_ID_MAX], struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(v->reader->db, KERNEL_NEXT_ID);
    bool row = false;
    query_bind_i64(&q, 1, scope);
    query_bind_text(&q, 2, after);
    query_bind_text(&q, 3, v->end);
    enum kiln_code rc = query_step(&q, &row, err);
    const char *id = !rc && row ? query_text(&q, 0) : "";
    if (strlen(id) >= VERSIONED_ID_MAX)
        id = "";
    memcpy(ret_id, id, strlen(id) + 1);
    return rc;
}

static enum kiln_code find_versions(struct versions *v, int64_t scope, struct kiln_err *err)
{
    char first[VERSIONED_ID_MAX], second[VERSIONED_ID_MAX];
    enum kiln_code rc = has_id(v, scope, err);
    v->several |= rc == KILN_OK;
    if (rc != KILN_NOT_FOUND)
        return rc;
    rc = next_id(v, scope, v->first, first, err);
    if (rc || !first[0])
        return rc;
    rc = next_id(v, scope, first, second, err);
    v->several |= second[0] || (v->only[0] && strcmp(v->only, first) != 0);
    memcpy(v->only, first, sizeof(first));
    return rc;
}

enum kiln_code kernel_store_only_version(struct kernel_store *store, uint32_t uid,
                                         struct bytes database_id, char ret_id[VERSIONED_ID_MAX],
                                         struct kiln_err *err)
{
    struct versions v = { 0 };
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    if (!name_versions(&v, database_id))
        return KILN_NOT_FOUND;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (rc || !reader)
        return rc ? rc : KILN_NOT_FOUND;
    v.reader = reader;
    rc = find_versions(&v, (int64_t)uid, err);
    if (!rc && !v.several)
        rc = find_versions(&v, -1, err);
    rc = store_note_read(store, rc);
    if (rc || v.several || !v.only[0])
        return rc ? rc : KILN_NOT_FOUND;
    memcpy(ret_id, v.only, sizeof(v.only));
    return KILN_OK;
}
