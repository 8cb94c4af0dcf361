/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "common/base/fs.h"
#include "common/base/subordinate_uids.h"
#include "engine/digest/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READING "reading a stored code object"

void store_claim(const struct digest *key, const struct digest *object, uint8_t claim[CLAIM_SIZE])
{
    struct digest both[2] = { *key, *object };
    struct digest sum = sha256_of(bytes_of(both, sizeof(both)));
    memcpy(claim, sum.bytes, CLAIM_SIZE);
}

static enum kiln_code check_claim(const struct stored_row *row, struct digest *ret_digest,
                                  struct kiln_err *err)
{
    uint8_t claim[CLAIM_SIZE];
    if (!store_to_digest(row->sha256, ret_digest))
        return kiln_fail(err, KILN_CORRUPT, "the kernel's object is missing");
    store_claim(row->key, ret_digest, claim);
    if (!bytes_equal(row->claim, bytes_of(claim, sizeof(claim))))
        return kiln_fail(err, KILN_CORRUPT, "the kernel's row names another object");
    return KILN_OK;
}

enum kiln_code store_check_row(const struct stored_row *row, struct codec *codec,
                               const struct piece_sink *sink, struct checked_row *ret_checked,
                               struct kiln_err *err)
{
    struct digest digest, sum;
    ret_checked->damage = DAMAGE_CLAIM;
    enum kiln_code rc = check_claim(row, &digest, err);
    if (rc)
        return rc;
    ret_checked->damage = DAMAGE_CONTENT;
    struct bytes raw = { 0 };
    if (row->piece_set)
        rc = store_read_pieces(row, codec, sink, &sum, err);
    else
        rc = codec_unpack(codec, &row->packed, &raw, err);
    if (rc)
        return rc;
    if (!row->piece_set)
        sum = sha256_of(raw);
    if (!digest_equal(&sum, &digest))
        return kiln_fail(err, KILN_CORRUPT,
                         "the object's SHA-256 is not the one it was stored under");
    *ret_checked = (struct checked_row){ .digest = digest, .raw = raw };
    return KILN_OK;
}

static void note_origin(struct object *object, const char *target, const char *program)
{
    struct object_origin *origin = calloc(1, sizeof(*origin));
    if (!origin)
        return;
    snprintf(origin->target, sizeof(origin->target), "%s", target);
    snprintf(origin->program, sizeof(origin->program), "%s", program);
    object->origin = origin;
}

static bool is_hidden(const struct query *q, struct kernel_reader *reader)
{
    int64_t scope = query_i64(q, 6);
    if (!reader || scope == -1 || scope == reader->uid)
        return false;
    reader->hidden = true;
    reader->owner = (uint32_t)scope;
    return true;
}

/* Uses write(2), which takes half the time of writing to a mapping, because a mapping has a page
 * fault for each page (20 KB: 17 instead of 35 us; 1 MiB: 525 instead of 935 us). If memory runs
 * out, write(2) fails, whereas a mapping would raise SIGBUS. */
static enum kiln_code put_in_file(void *context, struct bytes piece, struct kiln_err *err)
{
    return fs_write_all(*(int *)context, piece, err) ? kiln_while(err, READING) : KILN_OK;
}

static enum kiln_code make_file(int *ret_fd, struct kiln_err *err)
{
    return fs_memfd("kiln-object", ret_fd, err) ? kiln_while(err, READING) : KILN_OK;
}

static enum kiln_code read_row(const struct stored_row *row, struct codec *codec,
                               struct checked_row *checked, struct object **ret_object,
                               struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = -1;
    const struct piece_sink sink = { put_in_file, &fd };
    enum kiln_code rc = row->piece_set ? make_file(&fd, err) : KILN_OK;
    if (!rc)
        rc = store_check_row(row, codec, &sink, checked, err);
    if (!rc && !row->piece_set)
        rc = make_file(&fd, err);
    if (!rc && !row->piece_set)
        rc = put_in_file(&fd, checked->raw, err);
    if (!rc && fs_seal(fd, err))
        rc = kiln_while(err, READING);
    if (rc)
        return rc;
    int given = fd;
    fd = -1;
    return object_from_checked(given, row->packed.raw_size, &checked->digest, ret_object, err);
}

static enum kiln_code check_found(struct query *q, struct codec *codec,
                                  struct object_request *request, struct object **ret_object,
                                  struct kiln_err *err)
{
    const struct stored_row row = { .key = request->key,
                                    .claim = query_bytes(q, 0),
                                    .sha256 = query_bytes(q, 1),
                                    .packed = { .codec = query_u64(q, 2),
                                                .raw_size = query_u64(q, 3),
                                                .stored = query_bytes(q, 4) },
                                    .piece_set = query_u64(q, 9),
                                    .db = q->db };
    struct checked_row checked = { .damage = DAMAGE_NONE };
    enum kiln_code rc = read_row(&row, codec, &checked, ret_object, err);
    request->damage = checked.damage;
    if (rc)
        return rc;
    int64_t scope = query_i64(q, 6);
    (*ret_object)->compile_ns = query_u64(q, 5);
    (*ret_object)->kind = store_kind(query_u64(q, 10));
    (*ret_object)->is_private = scope != -1;
    (*ret_object)->owner = (uint32_t)scope;
    note_origin(*ret_object, query_text(q, 7), query_text(q, 8));
    return KILN_OK;
}

enum kiln_code store_read_object(struct db *db, struct codec *codec, struct object_request *request,
                                 struct object **ret_object, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db, KERNEL_FIND);
    query_bind_bytes(&q, 1, digest_view(request->key));
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    request->damage = rc == KILN_CORRUPT ? DAMAGE_FILE : DAMAGE_NONE;
    if (rc)
        return rc;
    if (!row || is_hidden(&q, request->reader))
        return KILN_NOT_FOUND;
    return check_found(&q, codec, request, ret_object, err);
}

/* Ignores damage if this process has no writer: SQLite then does not apply the log, so an intact
 * file may look damaged. */
enum kiln_code store_note_read(struct kernel_store *store, enum kiln_code rc)
{
    if (rc == KILN_CORRUPT && store->readers.access == STORE_BESIDE_WRITER)
        atomic_store(&store->file_damaged, true);
    return rc;
}

static enum kiln_code get_object(struct kernel_store *store, struct object_request *request,
                                 struct object **ret_object, struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    if (store_reader_take(store, &reader, err) != KILN_OK || !reader)
        return KILN_NOT_FOUND;
    enum kiln_code rc = store_read_object(reader->db, reader->codec, request, ret_object, err);
    if (rc == KILN_CORRUPT && request->damage != DAMAGE_FILE) {
        db_forget_pages(reader->db);
        rc = store_read_object(reader->db, reader->codec, request, ret_object, err);
        store->misreads += rc != KILN_CORRUPT;
    }
    if (request->damage == DAMAGE_FILE)
        store_note_read(store, rc);
    if (rc != KILN_CORRUPT)
        request->damage = DAMAGE_NONE;
    return rc == KILN_CORRUPT ? KILN_NOT_FOUND : rc;
}

enum kiln_code kernel_store_get(struct kernel_store *store, const struct digest *key,
                                struct object **ret_object, bool *ret_damaged, struct kiln_err *err)
{
    struct object_request request = { .key = key };
    enum kiln_code rc = get_object(store, &request, ret_object, err);
    *ret_damaged = request.damage != DAMAGE_NONE;
    return rc;
}

enum kiln_code kernel_store_get_as(struct kernel_store *store, struct kernel_reader *reader,
                                   const struct digest *key, struct object **ret_object,
                                   struct kiln_err *err)
{
    struct object_request request = { .key = key, .reader = reader };
    enum kiln_code rc = get_object(store, &request, ret_object, err);
    reader->damaged = request.damage != DAMAGE_NONE;
    return rc;
}

static enum kiln_code report_one(struct kernel_store *store, struct query *q,
                                 void (*each)(void *, const struct kernel_record *), void *context,
                                 struct kiln_err *err)
{
    bool row = false;
    enum kiln_code rc = query_step(q, &row, err);
    if (rc || !row)
        return rc ? store_note_read(store, rc) : KILN_NOT_FOUND;
    struct kernel_record record = store_record(q);
    each(context, &record);
    return KILN_OK;
}

enum kiln_code kernel_store_show(struct kernel_store *store, const struct digest *key,
                                 void (*each)(void *, const struct kernel_record *), void *context,
                                 struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (rc || !reader)
        return rc ? rc : KILN_NOT_FOUND;
    QUERY_AUTO struct query q = query_of(reader->db, KERNEL_SHOW);
    query_bind_bytes(&q, 1, digest_view(key));
    return report_one(store, &q, each, context, err);
}

enum kiln_code kernel_store_agrees(struct kernel_store *store, const struct kernel_record *record,
                                   bool *ret_agrees, struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    *ret_agrees = false;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (rc || !reader)
        return rc;
    QUERY_AUTO struct query q = query_of(reader->db, KERNEL_AGREES);
    query_bind_bytes(&q, 1, digest_view(&record->client_key));
    query_bind_bytes(&q, 2, digest_view(&record->object));
    query_bind_u64(&q, 3, record->uid);
    while (!*ret_agrees && query_next(&q, &rc, err))
        *ret_agrees = !is_one_user((uid_t)query_u64(&q, 0), record->uid);
    return store_note_read(store, rc);
}

enum kiln_code store_report_records(struct query *q,
                                    void (*each)(void *, const struct kernel_record *),
                                    void *context, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    while (query_next(q, &rc, err)) {
        struct kernel_record record = store_record(q);
        each(context, &record);
    }
    return rc;
}

enum kiln_code kernel_store_list(struct kernel_store *store, const struct kernel_page *page,
                                 void (*each)(void *, const struct kernel_record *), void *context,
                                 struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (rc || !reader)
        return rc;
    QUERY_AUTO struct query q = query_of(reader->db, KERNEL_LIST);
    query_bind_bytes(&q, 1, page->after ? digest_view(page->after) : (struct bytes){ 0 });
    store_bind_filter(&q, &page->filter);
    query_bind_u64(&q, 5, page->max);
    rc = store_report_records(&q, each, context, err);
    return store_note_read(store, rc);
}

static enum kiln_code read_last_id(struct store_reader *reader, uint64_t *ret_last,
                                   struct kiln_err *err)
{
    bool row = false;
    QUERY_AUTO struct query q = query_of(reader->db, KERNEL_LAST_ID);
    enum kiln_code rc = query_step(&q, &row, err);
    *ret_last = row ? query_u64(&q, 0) : 0;
    return rc;
}

enum kiln_code kernel_store_each_newer(struct kernel_store *store, const struct kernel_newer *newer,
                                       uint64_t *ret_last, struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    *ret_last = 0;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (rc || !reader)
        return rc;
    rc = read_last_id(reader, ret_last, err);
    if (rc)
        return store_note_read(store, rc);
    QUERY_AUTO struct query q = query_of(reader->db, KERNEL_AFTER);
    query_bind_u64(&q, 1, newer->after);
    query_bind_u64(&q, 2, newer->max);
    rc = store_report_records(&q, newer->each, newer->context, err);
    return store_note_read(store, rc);
}

#define PREFIX_MAX 1024u

static bool prefix_range(const char *prefix, struct digest range[2])
{
    char hex[DIGEST_HEX_SIZE];
    size_t digits = strlen(prefix);
    if (digits == 0 || digits >= sizeof(hex))
        return false;
    for (int end = 0; end < 2; end++) {
        memset(hex, end ? 'f' : '0', sizeof(hex) - 1);
        hex[sizeof(hex) - 1] = '\0';
        memcpy(hex, prefix, digits);
        if (!digest_from_hex(hex, &range[end]))
            return false;
    }
    return true;
}

enum kiln_code kernel_store_match(struct kernel_store *store, const char *prefix,
                                  const uint32_t *uid, struct kernel_keys *ret_keys,
                                  struct kiln_err *err)
{
    struct digest range[2];
    if (!prefix_range(prefix, range))
        return kiln_fail(err, KILN_INVALID,
                         "'%.80s' is not the beginning of a key: use 1 to 64 hexadecimal digits",
                         prefix);
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (!rc)
        ret_keys->count = 0;
    if (rc || !reader)
        return rc;
    QUERY_AUTO struct query q = query_of(reader->db, KERNEL_PREFIX);
    query_bind_bytes(&q, 1, digest_view(&range[0]));
    query_bind_bytes(&q, 2, digest_view(&range[1]));
    query_bind_u64(&q, 3, PREFIX_MAX);
    query_bind_i64(&q, 4, uid ? (int64_t)*uid : -1);
    size_t found = 0;
    unsigned seen = 0;
    for (; found < ret_keys->max && query_next(&q, &rc, err); seen++)
        found += query_u64(&q, 1) && store_to_digest(query_bytes(&q, 0), &ret_keys->keys[found]);
    if (!rc && found < ret_keys->max && seen == PREFIX_MAX)
        return kiln_fail(err, KILN_INVALID, "too many keys begin with '%.80s': give more digits",
                         prefix);
    if (!rc)
        ret_keys->count = found;
    return store_note_read(store, rc);
}

enum kiln_code store_number(struct db *db, enum kernel_statement statement, uint64_t *ret_number,
                            struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db, statement);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (!rc)
        *ret_number = row ? query_u64(&q, 0) : 0;
    return rc;
}

enum kiln_code store_usage(struct db *db, struct kernel_usage *ret_usage, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db, KERNEL_USAGE);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (rc)
        return rc;
    *ret_usage = (struct kernel_usage){ 0 };
    if (row)
        *ret_usage = (struct kernel_usage){ .kernels = query_u64(&q, 0),
                                            .objects = query_u64(&q, 1),
                                            .stored_bytes = query_u64(&q, 2),
                                            .raw_bytes = query_u64(&q, 3),
                                            .row_bytes = query_u64(&q, 4),
                                            .pinned = query_u64(&q, 5),
                                            .quarantined = query_u64(&q, 6) };
    return KILN_OK;
}

enum kiln_code kernel_store_usage(struct kernel_store *store, struct kernel_usage *ret_usage,
                                  struct kiln_err *err)
{
    struct kernel_usage usage = { 0 };
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (!rc && reader)
        rc = store_usage(reader->db, &usage, err);
    if (rc)
        return store_note_read(store, rc);
    usage.limit_bytes = store->limit_bytes;
    usage.taken_bytes = store->mode == KERNEL_STORE_OFF ? 0 : store_taken_bytes(store);
    *ret_usage = usage;
    return KILN_OK;
}

enum kiln_code kernel_store_usage_by_uid(struct kernel_store *store,
                                         void (*each)(void *, uint32_t uid, uint64_t kernels,
                                                      uint64_t bytes),
                                         void *context, struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (rc || !reader)
        return rc;
    QUERY_AUTO struct query q = query_of(reader->db, KERNEL_USAGE_BY_UID);
    while (query_next(&q, &rc, err))
        each(context, (uint32_t)query_u64(&q, 0), query_u64(&q, 1), query_u64(&q, 2));
    return store_note_read(store, rc);
}

enum kiln_code kernel_store_probes(struct kernel_store *store,
                                   void (*each)(void *, const struct kernel_probe *probe),
                                   void *context, struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (rc || !reader)
        return rc;
    QUERY_AUTO struct query q = query_of(reader->db, KERNEL_PROBES);
    while (query_next(&q, &rc, err)) {
        struct kernel_probe probe = { .target = query_text(&q, 1),
                                      .works = query_u64(&q, 2) != 0,
                                      .detail = query_text(&q, 3) };
        if (store_to_digest(query_bytes(&q, 0), &probe.toolchain_id))
            each(context, &probe);
    }
    return store_note_read(store, rc);
}
