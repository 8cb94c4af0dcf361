/* SPDX-License-Identifier: MIT */
#include "engine/package/package_kiln_parts.h"

#include "common/protocol/limits.h"
#include "engine/digest/sha256.h"
#include "engine/package/kpkg.h"

#include <string.h>

/* The page cache of one connection. A look-up reads only a few pages, and there may be many
 * connections. */
#define CACHE_KIB 256
/* Maximum size of a row's value. It is larger than the largest object, because a row also has
 * texts, and a compressed object may be larger than the raw one. */
#define VALUE_MAX (LIMIT_CODE_OBJECT + (1u << 20))

static const char *const statements[] = {
#define STATEMENT(name, text) text,
#include "engine/package/kpkg_statements.def"
#undef STATEMENT
};

static const char *const kernel_columns[] = { "id",      "name",      "args",         "key",
                                              "target",  "toolchain", "toolchain_id", "program",
                                              "options", "source",    "headers",      "object",
                                              "claim" };
static const struct db_table kernel_table = {
    .name = "kernel",
    .columns = kernel_columns,
    .column_count = sizeof(kernel_columns) / sizeof(kernel_columns[0]),
};

static void close_kpkg(void *connection)
{
    struct kpkg *kpkg = connection;
    if (!kpkg)
        return;
    db_destroy(kpkg->db);
    codec_destroy(kpkg->codec);
    free(kpkg);
}

static enum kiln_code open_kpkg(const struct package_place *place, void **ret_connection,
                                struct kiln_err *err)
{
    struct kpkg *kpkg = calloc(1, sizeof(*kpkg));
    if (!kpkg)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open '%s'", place->path);
    struct db_options options = {
        .path = place->path,
        .image = place->image,
        .statements = statements,
        .statement_count = KPKG_STATEMENT_COUNT,
        .value_max = VALUE_MAX,
        .cache_kib = CACHE_KIB,
        .read_only = true,
        .immutable = true,
        .foreign = true,
        .table = &kernel_table,
    };
    enum kiln_code rc = codec_create(&kpkg->codec, err);
    if (!rc)
        rc = db_open(&options, &kpkg->db, err);
    if (rc)
        close_kpkg(kpkg);
    else
        *ret_connection = kpkg;
    return rc;
}

static enum kiln_code count_rows(void *connection, uint64_t *ret_rows, struct kiln_err *err)
{
    struct kpkg *kpkg = connection;
    QUERY_AUTO struct query q = query_of(kpkg->db, KPKG_COUNT);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (!rc)
        *ret_rows = query_u64(&q, 0);
    return rc;
}

static struct kpkg_claim claim_at(const struct query *q)
{
    return (struct kpkg_claim){
        .name = query_bytes(q, KPKG_NAME),
        .args = query_bytes(q, KPKG_ARGS),
        .key = query_bytes(q, KPKG_KEY),
        .target = query_bytes(q, KPKG_TARGET),
        .toolchain = query_bytes(q, KPKG_TOOLCHAIN),
        .toolchain_id = query_bytes(q, KPKG_TOOLCHAIN_ID),
        .program = query_bytes(q, KPKG_PROGRAM),
        .options = query_bytes(q, KPKG_OPTIONS),
        .source = query_bytes(q, KPKG_SOURCE),
        .headers = query_bytes(q, KPKG_HEADERS),
        .object = query_bytes(q, KPKG_OBJECT),
    };
}

bool kpkg_is_digest(struct bytes stored, const struct digest *digest)
{
    return bytes_equal(stored, bytes_of(digest->bytes, sizeof(digest->bytes)));
}

enum kiln_code kpkg_check_claim(const struct query *q, struct kiln_err *err)
{
    struct kpkg_claim claim = claim_at(q);
    struct digest digest = kpkg_claim_of(&claim);
    if (!kpkg_is_digest(query_bytes(q, KPKG_CLAIM), &digest))
        return kiln_fail(err, KILN_CORRUPT, "row %llu was changed after it was written",
                         (unsigned long long)query_u64(q, KPKG_ID));
    return KILN_OK;
}

enum kiln_code kpkg_unpack(struct kpkg *kpkg, const struct packed_object *stored,
                           struct bytes *ret_raw, struct kiln_err *err)
{
    enum kiln_code rc = codec_unpack(kpkg->codec, stored, ret_raw, err);
    if (rc == KILN_NOT_FOUND)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "this version of kiln does not know the stored form %llu: install a newer "
                         "kiln, or a package made for this version",
                         (unsigned long long)stored->codec);
    return rc;
}

enum kiln_code kpkg_take_object(struct kpkg *kpkg, const struct query *q, struct buffer *ret_raw,
                                struct kiln_err *err)
{
    struct bytes raw;
    const struct packed_object stored = { .codec = query_u64(q, KPKG_CODEC),
                                          .stored = query_bytes(q, KPKG_BYTES),
                                          .raw_size = query_u64(q, KPKG_RAW_SIZE) };
    enum kiln_code rc = kpkg_check_claim(q, err);
    if (!rc)
        rc = kpkg_unpack(kpkg, &stored, &raw, err);
    if (rc)
        return rc;
    struct digest digest = sha256_of(raw);
    if (!kpkg_is_digest(query_bytes(q, KPKG_OBJECT), &digest))
        return kiln_fail(err, KILN_CORRUPT, "the object of row %llu does not have its SHA-256",
                         (unsigned long long)query_u64(q, KPKG_ID));
    buffer_put(ret_raw, raw.data, raw.size);
    return ret_raw->failed ? kiln_fail(err, KILN_NO_MEMORY,
                                       "no memory for a code object of %zu bytes", raw.size)
                           : KILN_OK;
}

static enum kiln_code step_to_row(struct query *q, struct kiln_err *err)
{
    bool row = false;
    enum kiln_code rc = query_step(q, &row, err);
    return rc || row ? rc : KILN_NOT_FOUND;
}

/* Appends the object of the row that was found through an index. |is_requested| states whether the
 * row has the requested name or key. If not, the file is damaged. */
static enum kiln_code take_found(struct kpkg *kpkg, const struct query *q, bool is_requested,
                                 struct buffer *ret_raw, struct kiln_err *err)
{
    if (!is_requested)
        return kiln_fail(err, KILN_CORRUPT, "an index leads to another kernel");
    enum kiln_code rc = kpkg_take_object(kpkg, q, ret_raw, err);
    if (rc != KILN_UNSUPPORTED)
        return rc;
    *err = KILN_ERR_INIT; /* no damage: a newer kiln wrote this object */
    return KILN_NOT_FOUND;
}

static bool has_name(const struct query *q, const struct kern_name *name)
{
    return bytes_equal(query_bytes(q, KPKG_NAME), name->name) &&
           bytes_equal(query_bytes(q, KPKG_ARGS), name->args);
}

static enum kiln_code find_named(void *connection, const struct kern_name *name,
                                 struct buffer *ret_raw, bool *ret_damaged, struct kiln_err *err)
{
    struct kpkg *kpkg = connection;
    QUERY_AUTO struct query q = query_of(kpkg->db, KPKG_FIND_NAMED);
    query_bind_text_view(&q, 1, name->name);
    query_bind_text_view(&q, 2, name->args);
    enum kiln_code rc = step_to_row(&q, err);
    if (!rc)
        rc = take_found(kpkg, &q, has_name(&q, name), ret_raw, err);
    *ret_damaged = rc == KILN_CORRUPT;
    return rc;
}

static enum kiln_code find_key(void *connection, const struct digest *key, struct buffer *ret_raw,
                               bool *ret_damaged, struct kiln_err *err)
{
    struct kpkg *kpkg = connection;
    QUERY_AUTO struct query q = query_of(kpkg->db, KPKG_FIND_KEY);
    query_bind_bytes(&q, 1, bytes_of(key->bytes, sizeof(key->bytes)));
    enum kiln_code rc = step_to_row(&q, err);
    if (!rc)
        rc = take_found(kpkg, &q, kpkg_is_digest(query_bytes(&q, KPKG_KEY), key), ret_raw, err);
    *ret_damaged = rc == KILN_CORRUPT;
    return rc;
}

enum kiln_code kpkg_next_id(uint64_t id, uint64_t *latest, struct kiln_err *err)
{
    if (id <= *latest)
        return kiln_fail(err, KILN_CORRUPT, "kernel %llu follows kernel %llu: the file is damaged",
                         (unsigned long long)id, (unsigned long long)*latest);
    *latest = id;
    return KILN_OK;
}

static struct digest digest_at(const struct query *q, int column)
{
    struct digest digest = { 0 };
    struct bytes stored = query_bytes(q, column);
    if (stored.size == sizeof(digest.bytes))
        memcpy(digest.bytes, stored.data, sizeof(digest.bytes));
    return digest;
}

static bool list_row(const struct query *q, const struct package_listing *listing)
{
    struct package_row row = {
        .id = query_u64(q, KPKG_ID),
        .stored_size = query_u64(q, KPKG_BYTES),
        .raw_size = query_u64(q, KPKG_RAW_SIZE),
        .key = digest_at(q, KPKG_KEY),
        .object = digest_at(q, KPKG_OBJECT),
        .toolchain_id = digest_at(q, KPKG_TOOLCHAIN_ID),
        .target = query_text(q, KPKG_TARGET),
        .toolchain = query_text(q, KPKG_TOOLCHAIN),
        .program = query_text(q, KPKG_PROGRAM),
        .options = query_text(q, KPKG_OPTIONS),
    };
    row.name = query_bytes(q, KPKG_NAME);
    row.args = query_bytes(q, KPKG_ARGS);
    return listing->each(listing->context, &row);
}

static enum kiln_code each_row(void *connection, const struct package_listing *listing,
                               struct kiln_err *err)
{
    uint64_t latest = listing->after;
    struct kpkg *kpkg = connection;
    QUERY_AUTO struct query q = query_of(kpkg->db, KPKG_EACH);
    query_bind_u64(&q, 1, listing->after);
    query_bind_u64(&q, 2, listing->count);
    bool row = true, more = true;
    enum kiln_code rc = KILN_OK;
    while (!rc && more) {
        rc = query_step(&q, &row, err);
        if (!rc && row)
            rc = kpkg_next_id(query_u64(&q, KPKG_ID), &latest, err);
        more = !rc && row && list_row(&q, listing);
    }
    return rc;
}

const struct package_ops package_kiln_ops = {
    .name = "kiln",
    .format = PACKAGE_KILN,
    .application_id = KPKG_APPLICATION_ID,
    .version = KPKG_VERSION,
    .open = open_kpkg,
    .close = close_kpkg,
    .rows = count_rows,
    .find_named = find_named,
    .find_key = find_key,
    .each = each_row,
    .check = kpkg_check_all,
};
