/* SPDX-License-Identifier: MIT */
#include "engine/miopen/kern_db.h"

#include "common/protocol/limits.h"
#include "engine/db/query.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* The maximum number of rows that are tried for one name and arguments. MIOpen's index allows only
 * one such row. The index of MIOpen's first versions allowed several rows that differ in hash or
 * size. */
#define CANDIDATES_MAX 16
#define CACHE_KIB 512
/* How many times the bytes of the file all listed rows together may have. In a crafted file, many
 * rows could use the same pages, and listing them would take very long. */
#define LISTED_MAX 2

enum kern_db_statement {
#define KERN_DB_STATEMENT(name, text) KERN_DB_##name,
#include "engine/miopen/kern_db_statements.def"
#undef KERN_DB_STATEMENT
    KERN_DB_STATEMENT_COUNT
};

struct kern_db {
    char *path;
    uint64_t size;
    struct db *db;
    uint64_t listed;
};

static const char *const statements[KERN_DB_STATEMENT_COUNT] = {
#define KERN_DB_STATEMENT(name, text) [KERN_DB_##name] = text,
#include "engine/miopen/kern_db_statements.def"
#undef KERN_DB_STATEMENT
};

static const char *const columns[] = { "kernel_name", "kernel_args", "kernel_blob", "kernel_hash",
                                       "uncompressed_size" };

static const struct db_table table = { .name = "kern_db",
                                       .columns = columns,
                                       .column_count = sizeof(columns) / sizeof(columns[0]) };

static enum kiln_code check_file(struct kern_db *db, struct kiln_err *err)
{
    struct stat seen;
    if (stat(db->path, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", db->path);
    if (!S_ISREG(seen.st_mode))
        return kiln_fail(err, KILN_CORRUPT, "'%s' is not a regular file", db->path);
    if (seen.st_size == 0)
        return kiln_fail(err, KILN_CORRUPT, "'%s' is not a kernel database: it is empty", db->path);
    db->size = (uint64_t)seen.st_size;
    return KILN_OK;
}

static enum kiln_code open_sqlite(struct kern_db *db, struct bytes image, struct kiln_err *err)
{
    struct db_options options = { .path = db->path,
                                  .image = image,
                                  .statements = statements,
                                  .statement_count = KERN_DB_STATEMENT_COUNT,
                                  .value_max = LIMIT_CODE_OBJECT + 4ull * LIMIT_NAMED_TEXT,
                                  .cache_kib = CACHE_KIB,
                                  .read_only = true,
                                  .immutable = true,
                                  .foreign = true,
                                  .table = &table };
    enum kiln_code rc = db_open(&options, &db->db, err);
    return rc == KILN_CORRUPT ? kiln_while(err, "not a kernel database of MIOpen") : rc;
}

static struct kern_db *create_db(const char *path)
{
    KILN_AUTO(kern_db) struct kern_db *db = calloc(1, sizeof(*db));
    if (db)
        db->path = strdup(path);
    return db && db->path ? KILN_TAKE(db) : NULL;
}

enum kiln_code kern_db_open(const char *path, struct kern_db **ret_db, struct kiln_err *err)
{
    KILN_AUTO(kern_db) struct kern_db *db = create_db(path);
    if (!db)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open '%s'", path);
    enum kiln_code rc = check_file(db, err);
    if (!rc)
        rc = open_sqlite(db, (struct bytes){ 0 }, err);
    if (!rc)
        *ret_db = KILN_TAKE(db);
    return rc;
}

enum kiln_code kern_db_open_image(struct bytes image, const char *name, struct kern_db **ret_db,
                                  struct kiln_err *err)
{
    KILN_AUTO(kern_db) struct kern_db *db = create_db(name);
    if (!db)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open '%s'", name);
    db->size = image.size;
    enum kiln_code rc = open_sqlite(db, image, err);
    if (!rc)
        *ret_db = KILN_TAKE(db);
    return rc;
}

void kern_db_destroy(struct kern_db *db)
{
    if (!db)
        return;
    db_destroy(db->db);
    free(db->path);
    free(db);
}

enum kiln_code kern_db_check(struct kern_db *db, struct kiln_err *err)
{
    return db_check_foreign(db->db, err);
}

static struct kern_row row_of(const struct query *q)
{
    int64_t raw_size = query_i64(q, 5);
    return (struct kern_row){ .id = query_u64(q, 0),
                              .name = query_bytes(q, 1),
                              .args = query_bytes(q, 2),
                              .stored = query_bytes(q, 3),
                              .md5 = query_bytes(q, 4),
                              .raw_size = raw_size < 0 ? UINT64_MAX : (uint64_t)raw_size };
}

static enum kiln_code unpack_row(struct kern_db *db, int64_t id, const struct kern_name *name,
                                 struct buffer *raw, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db->db, KERN_DB_ROW);
    bool there = false;
    query_bind_i64(&q, 1, id);
    enum kiln_code rc = query_step(&q, &there, err);
    if (rc)
        return rc;
    if (!there)
        return kiln_fail(err, KILN_CORRUPT, "the index of '%s' refers to a row that does not exist",
                         db->path);
    struct kern_row row = row_of(&q);
    if (!bytes_equal(row.name, name->name) || !bytes_equal(row.args, name->args))
        return kiln_fail(err, KILN_CORRUPT, "the index of '%s' leads to row %llu of another kernel",
                         db->path, (unsigned long long)row.id);
    rc = kern_row_unpack(&row, raw, err);
    return rc ? kiln_while(err, "'%s'", db->path) : KILN_OK;
}

static enum kiln_code find_row(struct kern_db *db, const struct kern_name *name, struct buffer *raw,
                               struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db->db, KERN_DB_FIND);
    query_bind_text_view(&q, 1, name->name);
    query_bind_text_view(&q, 2, name->args);
    bool damaged = false;
    for (int i = 0; i < CANDIDATES_MAX; i++) {
        bool row = false;
        enum kiln_code rc = query_step(&q, &row, err);
        if (!rc && !row)
            return damaged ? KILN_CORRUPT : KILN_NOT_FOUND;
        if (!rc)
            rc = unpack_row(db, query_i64(&q, 0), name, raw, err);
        if (rc != KILN_CORRUPT || !row)
            return rc;
        damaged = true;
    }
    return KILN_CORRUPT;
}

enum kiln_code kern_db_find(struct kern_db *db, const struct kern_name *name,
                            struct buffer *ret_raw, bool *ret_damaged, struct kiln_err *err)
{
    enum kiln_code rc = find_row(db, name, ret_raw, err);
    *ret_damaged = rc == KILN_CORRUPT;
    return rc == KILN_CORRUPT ? KILN_NOT_FOUND : rc;
}

enum kiln_code kern_db_count(struct kern_db *db, uint64_t *ret_rows, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db->db, KERN_DB_COUNT);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (!rc)
        *ret_rows = query_u64(&q, 0);
    return rc;
}

static enum kiln_code check_order(struct kern_db *db, uint64_t after, const struct kern_row *row,
                                  struct kiln_err *err)
{
    db->listed += row->name.size + row->args.size + row->stored.size;
    if (row->id <= after || db->listed > LISTED_MAX * db->size)
        return kiln_fail(err, KILN_CORRUPT, "the rows of '%s' overlap", db->path);
    return KILN_OK;
}

enum kiln_code kern_db_each(struct kern_db *db, const struct kern_listing *listing,
                            struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db->db, KERN_DB_NEXT);
    query_bind_u64(&q, 1, listing->after);
    if (listing->after == 0)
        db->listed = 0;
    uint64_t after = listing->after;
    for (uint64_t left = listing->count; left > 0; left--) {
        bool there = false;
        enum kiln_code rc = query_step(&q, &there, err);
        if (rc || !there)
            return rc;
        struct kern_row row = row_of(&q);
        rc = check_order(db, after, &row, err);
        if (rc)
            return rc;
        after = row.id;
        if (!listing->each(listing->context, &row))
            return KILN_OK;
    }
    return KILN_OK;
}
