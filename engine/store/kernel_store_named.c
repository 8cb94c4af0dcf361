/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include <stdio.h>
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
    struct buffer texts, object; /* of the kernel in hand, where they are in no query */
    bool stopped;
};

struct reported {
    struct kernel_record record; /* its texts in the walk's */
    struct bytes raw;            /* borrowed from the walk or the codec */
    bool found;                  /* false: there are no more of the scope */
    bool skipped;                /* not for the caller */
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

static enum kiln_code keep_texts(struct walk *w, struct kernel_record *r, struct kiln_err *err)
{
    const char **const texts[] = { &r->target,      &r->toolchain, &r->program, &r->options,
                                   &r->database_id, &r->package,   &r->version };
    const size_t count = sizeof(texts) / sizeof(texts[0]);
    w->texts.size = 0;
    for (size_t i = 0; i < count; i++)
        buffer_put(&w->texts, *texts[i], strlen(*texts[i]) + 1);
    if (w->texts.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot hold what is known about a kernel");
    const char *at = (const char *)w->texts.data;
    for (size_t i = 0; i < count; at += strlen(at) + 1, i++)
        *texts[i] = at;
    return KILN_OK;
}

/* Borrowed from the codec, or kept. */
static enum kiln_code keep_object(struct walk *w, struct bytes stored, struct bytes *raw,
                                  struct kiln_err *err)
{
    if (raw->size == 0 || raw->data != stored.data)
        return KILN_OK;
    w->object.size = 0;
    buffer_put(&w->object, raw->data, raw->size);
    if (w->object.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot hold a kernel of %zu bytes", raw->size);
    *raw = buffer_view(&w->object);
    return KILN_OK;
}

static enum kiln_code check(struct walk *w, const struct query *q, struct reported *t,
                            struct kiln_err *err)
{
    struct stored_row row = { .claim = query_bytes(q, RECORD_COLUMN_COUNT),
                              .sha256 = query_bytes(q, 1),
                              .stored = query_bytes(q, RECORD_COLUMN_COUNT + 2),
                              .codec = query_u64(q, RECORD_COLUMN_COUNT + 1),
                              .raw_size = t->record.raw_size };
    struct digest digest;
    enum damage damage = DAMAGE_NONE;
    enum kiln_code rc =
        store_check_row(&row, w->reader->codec, &t->record.key, &digest, &t->raw, &damage, err);
    t->skipped = rc == KILN_NOT_FOUND; /* of a newer kiln: not for this one to read */
    if (rc == KILN_NOT_FOUND)
        return KILN_OK;
    if (rc == KILN_CORRUPT) {
        t->raw = bytes_of(NULL, 0);
        return KILN_OK;
    }
    return rc ? rc : keep_object(w, row.stored, &t->raw, err);
}

/* The next of one scope.  No query stands on a row when this returns: what is done with the kernel
 * may take long, and as long as somebody reads, the write-ahead log cannot be cut. */
static enum kiln_code read_next(struct walk *w, struct reported *t, struct kiln_err *err)
{
    *t = (struct reported){ 0 };
    QUERY_AUTO struct query q = query_of(w->reader->db, KERNEL_NAMED);
    query_bind_text(&q, 1, w->database_id);
    query_bind_i64(&q, 2, w->place->everyones ? -1 : (int64_t)w->uid);
    query_bind_u64(&q, 3, w->place->id);
    query_bind_i64(&q, 4, 1);
    enum kiln_code rc = query_step(&q, &t->found, err);
    if (rc || !t->found)
        return rc;
    t->record = store_record(&q);
    w->place->id = t->record.id;
    if (w->place->everyones)
        rc = is_replaced(w, &t->record, &t->skipped, err);
    if (!rc && !t->skipped)
        rc = check(w, &q, t, err);
    return rc || t->skipped ? rc : keep_texts(w, &t->record, err);
}

/* The kernels of one scope. */
static enum kiln_code walk_scope(struct walk *w, bool *ret_end, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    struct reported reported = { .found = true };
    while (!rc && reported.found && w->left > 0 && !w->stopped) {
        rc = read_next(w, &reported, err);
        if (rc || !reported.found || reported.skipped)
            continue;
        w->left--;
        w->stopped = !w->each(w->context, &reported.record, reported.raw);
    }
    *ret_end = !rc && !reported.found;
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
    buffer_init(&w.texts, LIMIT_CODE_OBJECT);
    buffer_init(&w.object, LIMIT_CODE_OBJECT);
    while (!rc && !end && w.left > 0 && !w.stopped) {
        rc = walk_scope(&w, &end, err);
        if (rc || !end || place->everyones)
            continue;
        *place = (struct kernel_place){ .everyones = true };
        end = false;
    }
    buffer_done(&w.texts);
    buffer_done(&w.object);
    if (!rc)
        *ret_end = end;
    return rc;
}

/* ---- versions ---- */

struct versions { /* of one device */
    struct store_reader *reader;
    char plain[KERNEL_VERSIONED_ID_MAX - 2]; /* "gfx90a68" */
    char first[KERNEL_VERSIONED_ID_MAX];     /* "gfx90a68@": below all of them */
    char end[KERNEL_VERSIONED_ID_MAX];       /* above all of them */
    char only[KERNEL_VERSIONED_ID_MAX];      /* the one that was found; "" for none */
    bool several;                            /* or some of no version */
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

/* The first version above |after|; "" when there is none. */
static enum kiln_code next_id(const struct versions *v, int64_t scope, const char *after,
                              char ret_id[KERNEL_VERSIONED_ID_MAX], struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(v->reader->db, KERNEL_NEXT_ID);
    bool row = false;
    query_bind_i64(&q, 1, scope);
    query_bind_text(&q, 2, after);
    query_bind_text(&q, 3, v->end);
    enum kiln_code rc = query_step(&q, &row, err);
    const char *id = !rc && row ? query_text(&q, 0) : "";
    if (strlen(id) >= KERNEL_VERSIONED_ID_MAX)
        id = ""; /* nothing that we stored */
    memcpy(ret_id, id, strlen(id) + 1);
    return rc;
}

static enum kiln_code look_at_scope(struct versions *v, int64_t scope, struct kiln_err *err)
{
    char first[KERNEL_VERSIONED_ID_MAX], second[KERNEL_VERSIONED_ID_MAX];
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
                                         struct bytes database_id,
                                         char ret_id[KERNEL_VERSIONED_ID_MAX], struct kiln_err *err)
{
    struct versions v = { 0 };
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    if (!name_versions(&v, database_id))
        return KILN_NOT_FOUND;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (rc || !reader)
        return rc ? rc : KILN_NOT_FOUND;
    v.reader = reader;
    rc = look_at_scope(&v, (int64_t)uid, err);
    if (!rc && !v.several)
        rc = look_at_scope(&v, -1, err);
    rc = store_note_read(store, rc);
    if (rc || v.several || !v.only[0])
        return rc ? rc : KILN_NOT_FOUND;
    memcpy(ret_id, v.only, sizeof(v.only));
    return KILN_OK;
}
