/* SPDX-License-Identifier: MIT */

/* Reads MIOpen's kernel database as MIOpen 5.2.3 does. Inserts the kernel's name and arguments as
 * text into an SQL statement, which selects the row. Then decompresses the row's bzip2 stream, and
 * compares the MD5 of the result in hexadecimal. */
#include "tests/bench/subject.h"

#include <bzlib.h>
#include <nettle/md5.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#define KERNEL_NAME "ConvBench.cl.o"
/* length of a kernel's arguments in bytes; in MIOpen's caches the mean is 1.3 KB */
#define ARGS_SIZE 1400
#define MD5_HEX_SIZE 33

struct miopen_subject {
    struct subject base;
    const struct subject_place *place;
    sqlite3 *db; /* NULL between fetches if each fetch opens the database */
    uint8_t *raw;
};

static void args_of(size_t index, char args[ARGS_SIZE])
{
    size_t at = (size_t)snprintf(args, ARGS_SIZE, " -DMLO_BENCH_INDEX=%zu", index);
    for (unsigned i = 0; at < 1280; i++)
        at += (size_t)snprintf(args + at, ARGS_SIZE - at, " -DMLO_PARAMETER_%u=%zu", i,
                               (index * 31 + i) % 997);
    snprintf(args + at, ARGS_SIZE - at, " -mcpu=gfx906");
}

static void md5_hex(const uint8_t *bytes, size_t size, char hex[MD5_HEX_SIZE])
{
    struct md5_ctx ctx;
    uint8_t digest[MD5_DIGEST_SIZE];
    md5_init(&ctx);
    md5_update(&ctx, size, bytes);
    md5_digest(&ctx, sizeof(digest), digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

static enum kiln_code sql_failed(sqlite3 *db, const char *what, struct kiln_err *err)
{
    return kiln_fail(err, KILN_IO, "cannot %s: %s", what, db ? sqlite3_errmsg(db) : "no memory");
}

static enum kiln_code open_file(const char *path, int flags, sqlite3 **ret_db, struct kiln_err *err)
{
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, flags, NULL) == SQLITE_OK) {
        *ret_db = db;
        return KILN_OK;
    }
    enum kiln_code rc = sql_failed(db, "open MIOpen's database", err);
    sqlite3_close(db);
    return rc;
}

static void statement_auto(sqlite3_stmt **s) { sqlite3_finalize(*s); }

static bool unpack_object(struct miopen_subject *s, sqlite3_stmt *row)
{
    unsigned size = (unsigned)sqlite3_column_int(row, 2);
    unsigned stored = (unsigned)sqlite3_column_bytes(row, 0);
    const void *blob = sqlite3_column_blob(row, 0);
    /* MIOpen makes this copy, too */
    KILN_AUTO(mem) char *copy = malloc(stored);
    if (!copy || size > s->place->content->size)
        return false;
    memcpy(copy, blob, stored);
    if (BZ2_bzBuffToBuffDecompress((char *)s->raw, &size, copy, stored, 0, 0) != BZ_OK)
        return false;
    char hex[MD5_HEX_SIZE];
    md5_hex(s->raw, size, hex);
    return strcmp(hex, (const char *)sqlite3_column_text(row, 1)) == 0;
}

static enum kiln_code look_up(struct miopen_subject *s, size_t index, struct kiln_err *err)
{
    char args[ARGS_SIZE], sql[ARGS_SIZE + 256];
    args_of(index % s->place->content->count, args);
    snprintf(sql, sizeof(sql),
             "SELECT kernel_blob, kernel_hash, uncompressed_size FROM kern_db "
             "WHERE (kernel_name = '%s') AND (kernel_args = '%s');",
             KERNEL_NAME, args);
    __attribute__((cleanup(statement_auto))) sqlite3_stmt *row = NULL;
    if (sqlite3_prepare_v2(s->db, sql, -1, &row, NULL) || sqlite3_step(row) != SQLITE_ROW)
        return sql_failed(s->db, "find a kernel MIOpen's way", err);
    return unpack_object(s, row) ? KILN_OK
                                 : kiln_fail(err, KILN_CORRUPT, "kernel %zu is damaged", index);
}

static enum kiln_code fetch_kept(struct subject *base, size_t index, struct kiln_err *err)
{
    struct miopen_subject *s = (struct miopen_subject *)base;
    enum kiln_code rc = look_up(s, index, err);
    if (!rc)
        (void)content_touch(s->place->content, s->raw);
    return rc;
}

static enum kiln_code fetch_fresh(struct subject *base, size_t index, struct kiln_err *err)
{
    struct miopen_subject *s = (struct miopen_subject *)base;
    enum kiln_code rc = open_file(s->place->miopen_file, SQLITE_OPEN_READONLY, &s->db, err);
    if (!rc)
        rc = fetch_kept(base, index, err);
    sqlite3_close(s->db);
    s->db = NULL;
    return rc;
}

static void miopen_close(struct subject *base)
{
    struct miopen_subject *s = (struct miopen_subject *)base;
    sqlite3_close(s->db);
    free(s->raw);
    free(s);
}

static enum kiln_code open_way(const struct subject_ops *ops, const struct subject_place *place,
                               struct miopen_subject **ret_subject, struct kiln_err *err)
{
    struct miopen_subject *s = calloc(1, sizeof(*s));
    uint8_t *raw = malloc(place->content->size);
    if (!s || !raw) {
        free(s);
        free(raw);
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open MIOpen's database");
    }
    *s = (struct miopen_subject){ .base.ops = ops, .place = place, .raw = raw };
    *ret_subject = s;
    return KILN_OK;
}

static enum kiln_code open_fresh(const struct subject_place *place, struct subject **ret_subject,
                                 struct kiln_err *err)
{
    struct miopen_subject *s = NULL;
    enum kiln_code rc = open_way(&subject_miopen_fresh, place, &s, err);
    if (!rc)
        *ret_subject = &s->base;
    return rc;
}

static enum kiln_code open_kept(const struct subject_place *place, struct subject **ret_subject,
                                struct kiln_err *err)
{
    struct miopen_subject *s = NULL;
    enum kiln_code rc = open_way(&subject_miopen_kept, place, &s, err);
    if (rc)
        return rc;
    rc = open_file(place->miopen_file, SQLITE_OPEN_READONLY, &s->db, err);
    if (rc) {
        miopen_close(&s->base);
        return rc;
    }
    *ret_subject = &s->base;
    return KILN_OK;
}

static const char schema[] =
    "PRAGMA page_size=4096; DROP TABLE IF EXISTS kern_db;"
    "CREATE TABLE kern_db (id INTEGER PRIMARY KEY ASC, kernel_name TEXT NOT NULL,"
    " kernel_args TEXT NOT NULL, kernel_blob BLOB NOT NULL, kernel_hash TEXT NOT NULL,"
    " uncompressed_size INT NOT NULL);"
    "CREATE UNIQUE INDEX idx_kern_db ON kern_db (kernel_name, kernel_args); BEGIN;";

struct filler {
    sqlite3 *db;
    sqlite3_stmt *insert;
    uint8_t *raw;
    char *packed;
    unsigned capacity;
    uint64_t stored;
};

static void filler_done(struct filler *f)
{
    sqlite3_finalize(f->insert);
    sqlite3_close(f->db);
    free(f->raw);
    free(f->packed);
}

static enum kiln_code insert_object(struct filler *f, const struct content *content, size_t index,
                                    struct kiln_err *err)
{
    char args[ARGS_SIZE], hex[MD5_HEX_SIZE];
    unsigned packed = f->capacity;
    args_of(index, args);
    content_make(content, index, f->raw);
    md5_hex(f->raw, content->size, hex);
    if (BZ2_bzBuffToBuffCompress(f->packed, &packed, (char *)f->raw, (unsigned)content->size, 9, 0,
                                 30) != BZ_OK)
        return kiln_fail(err, KILN_IO, "bzip2 refused an object of %zu bytes", content->size);
    sqlite3_bind_text(f->insert, 1, KERNEL_NAME, -1, SQLITE_STATIC);
    sqlite3_bind_text(f->insert, 2, args, -1, SQLITE_STATIC);
    sqlite3_bind_blob(f->insert, 3, f->packed, (int)packed, SQLITE_STATIC);
    sqlite3_bind_text(f->insert, 4, hex, -1, SQLITE_STATIC);
    sqlite3_bind_int(f->insert, 5, (int)content->size);
    bool done = sqlite3_step(f->insert) == SQLITE_DONE;
    sqlite3_reset(f->insert);
    f->stored += packed;
    return done ? KILN_OK : sql_failed(f->db, "write MIOpen's database", err);
}

static enum kiln_code filler_open(struct filler *f, const struct content *content, const char *path,
                                  struct kiln_err *err)
{
    f->capacity = (unsigned)(content->size + content->size / 50 + 1000); /* bzip2's own bound */
    f->raw = malloc(content->size);
    f->packed = malloc(f->capacity);
    if (!f->raw || !f->packed)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot write MIOpen's database");
    enum kiln_code rc = open_file(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &f->db, err);
    if (rc)
        return rc;
    if (sqlite3_exec(f->db, schema, NULL, NULL, NULL) ||
        sqlite3_prepare_v2(f->db, "INSERT INTO kern_db VALUES (NULL, ?, ?, ?, ?, ?)", -1,
                           &f->insert, NULL))
        return sql_failed(f->db, "make MIOpen's database", err);
    return KILN_OK;
}

enum kiln_code miopen_fill(const struct content *content, const char *path, double *ret_ratio,
                           struct kiln_err *err)
{
    __attribute__((cleanup(filler_done))) struct filler f = { 0 };
    enum kiln_code rc = filler_open(&f, content, path, err);
    for (size_t i = 0; i < content->count && !rc; i++)
        rc = insert_object(&f, content, i, err);
    if (rc)
        return rc;
    if (sqlite3_exec(f.db, "COMMIT", NULL, NULL, NULL))
        return sql_failed(f.db, "write MIOpen's database", err);
    *ret_ratio = (double)content->size * (double)content->count / (double)f.stored;
    return KILN_OK;
}

const struct subject_ops subject_miopen_kept = {
    .name = "miopen-kept",
    .round_max = 100,
    .open = open_kept,
    .fetch = fetch_kept,
    .close = miopen_close,
};

const struct subject_ops subject_miopen_fresh = {
    .name = "miopen-fresh",
    .round_max = 100,
    .open = open_fresh,
    .fetch = fetch_fresh,
    .close = miopen_close,
};
