/* SPDX-License-Identifier: MIT */
#include "engine/package/kpkg_writer.h"

#include "common/protocol/limits.h"
#include "common/protocol/messages.h"
#include "engine/codec/codec_zstd.h"
#include "engine/db/new_file.h"
#include "engine/db/query.h"
#include "engine/digest/sha256.h"
#include "engine/package/kpkg.h"

static const char setup[] =
    "create table object (sha256 blob not null primary key, codec integer not null,"
    " raw_size integer not null, bytes blob not null);"
    "create table source (sha256 blob not null primary key, codec integer not null,"
    " raw_size integer not null, bytes blob not null);"
    "create table kernel (id integer primary key, name text not null, args text not null, key blob,"
    " target text not null, toolchain text not null, toolchain_id blob, program text not null,"
    " options text not null, source blob not null, headers blob not null, object blob not null,"
    " claim blob not null);"
    "create unique index kernel_by_name on kernel (name, args);"
    "create unique index kernel_by_key on kernel (key) where key is not null;"
    "pragma application_id = 1263553351; pragma user_version = 1";
_Static_assert(KPKG_APPLICATION_ID == 1263553351 && KPKG_VERSION == 1, "the numbers in |setup|");

enum statement { HAS_OBJECT, PUT_OBJECT, HAS_SOURCE, PUT_SOURCE, HAS_KEY, PUT_KERNEL };

static const char *const statements[] = {
    [HAS_OBJECT] = "select 1 from object where sha256 = ?1",
    [PUT_OBJECT] = "insert into object (sha256, codec, raw_size, bytes) values (?1, ?2, ?3, ?4)",
    [HAS_SOURCE] = "select 1 from source where sha256 = ?1",
    [PUT_SOURCE] = "insert into source (sha256, codec, raw_size, bytes) values (?1, ?2, ?3, ?4)",
    [HAS_KEY] = "select 1 from kernel where key = ?1",
    [PUT_KERNEL] = "insert into kernel (name, args, key, target, toolchain, toolchain_id, program,"
                   " options, source, headers, object, claim) values (?1, ?2, nullif(?3, x''), ?4,"
                   " ?5, nullif(?6, x''), ?7, ?8, ?9, ?10, ?11, ?12)",
};

struct kpkg_writer {
    struct db *db; /* owned; NULL after the file is finished */
    struct codec *codec;
};

enum kiln_code kpkg_writer_create(const char *path, struct kpkg_writer **ret_writer,
                                  struct kiln_err *err)
{
    KILN_AUTO(kpkg_writer) struct kpkg_writer *writer = calloc(1, sizeof(*writer));
    if (!writer)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to write '%s'", path);
    struct db_new_file_options options = {
        .path = path,
        .setup = setup,
        .statements = statements,
        .statement_count = sizeof(statements) / sizeof(statements[0]),
        .value_max = LIMIT_CODE_OBJECT + (1u << 20),
    };
    enum kiln_code rc = codec_create(&writer->codec, err);
    if (!rc)
        rc = db_new_file(&options, &writer->db, err);
    if (!rc)
        *ret_writer = KILN_TAKE(writer);
    return rc;
}

void kpkg_writer_destroy(struct kpkg_writer *writer)
{
    if (!writer)
        return;
    db_new_file_abandon(writer->db);
    codec_destroy(writer->codec);
    free(writer);
}

static struct bytes view_of(const struct digest *digest)
{
    return bytes_of(digest->bytes, sizeof(digest->bytes));
}

/* Returns the digest's bytes; none if the digest is absent (all zeros). */
static struct bytes view_if_any(const struct digest *digest)
{
    static const struct digest none;
    return digest_equal(digest, &none) ? bytes_of(NULL, 0) : view_of(digest);
}

static enum kiln_code has_digest(struct kpkg_writer *writer, enum statement statement,
                                 struct bytes digest, bool *ret_has, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(writer->db, statement);
    query_bind_bytes(&q, 1, digest);
    return query_step(&q, ret_has, err);
}

static const struct content_table {
    enum statement has, put;
} objects = { HAS_OBJECT, PUT_OBJECT }, sources = { HAS_SOURCE, PUT_SOURCE };

static enum kiln_code put_content(struct kpkg_writer *writer, const struct content_table *table,
                                  struct bytes content, struct digest *ret_sha256,
                                  struct kiln_err *err)
{
    *ret_sha256 = sha256_of(content);
    bool there = false;
    enum kiln_code rc = has_digest(writer, table->has, view_of(ret_sha256), &there, err);
    if (rc || there)
        return rc;
    struct bytes stored = content; /* an empty text is not compressed */
    enum codec_id id = CODEC_RAW;
    if (content.size)
        rc = codec_pack(writer->codec, content, &stored, &id, err);
    if (rc)
        return rc;
    QUERY_AUTO struct query q = query_of(writer->db, table->put);
    query_bind_bytes(&q, 1, view_of(ret_sha256));
    query_bind_u64(&q, 2, id);
    query_bind_u64(&q, 3, content.size);
    query_bind_bytes(&q, 4, stored);
    return query_run(&q, err);
}

static enum kiln_code put_headers(struct kpkg_writer *writer, const struct package_entry *entry,
                                  struct buffer *ret_list, struct kiln_err *err)
{
    struct reader r = reader_of(entry->headers);
    for (uint32_t i = 0; i < entry->header_count; i++) {
        struct message_header header = message_header_read(&r);
        struct digest sha256;
        enum kiln_code rc = r.failed ? kiln_fail(err, KILN_INVALID, "its headers are truncated")
                                     : put_content(writer, &sources, header.text, &sha256, err);
        if (rc)
            return rc;
        buffer_put_sized(ret_list, header.name);
        buffer_put(ret_list, sha256.bytes, sizeof(sha256.bytes));
    }
    if (reader_left(&r))
        return kiln_fail(err, KILN_INVALID, "there are extra bytes after its last header");
    return ret_list->failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for its headers") : KILN_OK;
}

static enum kiln_code put_kernel(struct kpkg_writer *writer, const struct kpkg_claim *claim,
                                 struct kiln_err *err)
{
    struct digest digest = kpkg_claim_of(claim);
    QUERY_AUTO struct query q = query_of(writer->db, PUT_KERNEL);
    query_bind_text_view(&q, 1, claim->name);
    query_bind_text_view(&q, 2, claim->args);
    query_bind_bytes(&q, 3, claim->key);
    query_bind_text_view(&q, 4, claim->target);
    query_bind_text_view(&q, 5, claim->toolchain);
    query_bind_bytes(&q, 6, claim->toolchain_id);
    query_bind_text_view(&q, 7, claim->program);
    query_bind_text_view(&q, 8, claim->options);
    query_bind_bytes(&q, 9, claim->source);
    query_bind_bytes(&q, 10, claim->headers);
    query_bind_bytes(&q, 11, claim->object);
    query_bind_bytes(&q, 12, view_of(&digest));
    return query_run(&q, err);
}

enum kiln_code kpkg_writer_add(struct kpkg_writer *writer, const struct package_entry *entry,
                               struct kiln_err *err)
{
    struct bytes key = view_if_any(&entry->key);
    bool repeated = false;
    enum kiln_code rc = key.size ? has_digest(writer, HAS_KEY, key, &repeated, err) : KILN_OK;
    if (!rc && repeated)
        rc = kiln_fail(err, KILN_INVALID, "another kernel has the same key");
    struct digest object, source;
    if (!rc)
        rc = put_content(writer, &objects, entry->raw, &object, err);
    if (!rc)
        rc = put_content(writer, &sources, entry->source, &source, err);
    BUFFER_AUTO struct buffer headers;
    buffer_init(&headers, LIMIT_HEADERS * (LIMIT_PROGRAM_NAME + DIGEST_SIZE + 4));
    if (!rc)
        rc = put_headers(writer, entry, &headers, err);
    if (rc)
        return rc;
    struct kpkg_claim claim = {
        .name = entry->name,
        .args = entry->args,
        .key = key,
        .target = entry->target,
        .toolchain = entry->toolchain,
        .toolchain_id = view_if_any(&entry->toolchain_id),
        .program = entry->program,
        .options = entry->options,
        .source = view_of(&source),
        .headers = buffer_view(&headers),
        .object = view_of(&object),
    };
    return put_kernel(writer, &claim, err);
}

enum kiln_code kpkg_writer_finish(struct kpkg_writer *writer, struct kiln_err *err)
{
    return db_new_file_finish(KILN_TAKE(writer->db), err);
}
