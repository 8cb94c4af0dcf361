/* SPDX-License-Identifier: MIT */
#include "engine/miopen/kern_db.h"
#include "common/base/clock.h"
#include "common/protocol/limits.h"
#include "engine/db/new_file.h"
#include "engine/db/snapshot.h"
#include "engine/miopen/kern_db_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* At most this many rows with the same name and arguments are tried. MIOpen's index allows only
 * one. In its first versions, the index also contained hash and size, so there could be several. */
#define CANDIDATES_MAX 16
#define CACHE_KIB 512
#define DIRECTORY_MAX 512
#define COPY_NAME "/kernels.kdb"

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

/* ---- opening ---- */

/* Does not block, even if |path| is a pipe. */
static enum kiln_code open_file(struct kern_db *db, const char *path, struct kiln_err *err)
{
    struct stat seen;
    db->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (db->fd < 0 || fstat(db->fd, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", db->path);
    if (!S_ISREG(seen.st_mode))
        return kiln_fail(err, KILN_CORRUPT, "'%s' is not a regular file", db->path);
    if (seen.st_size == 0)
        return kiln_fail(err, KILN_CORRUPT, "'%s' is not a kernel database: it is empty", db->path);
    db->size = (uint64_t)seen.st_size;
    return KILN_OK;
}

static enum kiln_code open_sqlite(struct kern_db *db, const char *path, struct bytes image,
                                  struct kiln_err *err)
{
    struct db_options options = { .path = path,
                                  .image = image,
                                  .shown = db->path,
                                  .statements = statements,
                                  .statement_count = KERN_DB_STATEMENT_COUNT,
                                  .value_max = LIMIT_CODE_OBJECT + 4ull * KERN_DB_TEXT_MAX,
                                  .cache_kib = CACHE_KIB,
                                  .read_only = true,
                                  .immutable = true,
                                  .foreign = true,
                                  .table = &table };
    enum kiln_code rc = db_open(&options, &db->db, err);
    if (rc == KILN_CORRUPT)
        return kiln_while(err, "not a kernel database of MIOpen");
    if (rc)
        return rc;
    QUERY_AUTO struct query q = query_of(db->db, KERN_DB_IS_INDEXED);
    return query_step(&q, &db->indexed, err);
}

/* Opens a file that SQLite rejects. It may contain readable rows, which kern_db_search looks
 * for. */
static enum kiln_code open_damaged(struct kern_db *db, struct kiln_err *err)
{
    db->damage = *err;
    *err = KILN_ERR_INIT;
    enum kiln_code rc = kern_salvage_open(db->fd, &db->salvage, err);
    if (rc == KILN_CORRUPT)
        *err = db->damage;
    return rc;
}

enum kiln_code kern_db_search(struct kern_db *db, uint64_t end_ns, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    bool late = false;
    for (db->is_searching = true; !rc && db->is_searching && !late;) {
        rc = kern_salvage_search(db->salvage, end_ns, &db->is_searching, err);
        late = clock_monotonic_ns() >= end_ns;
    }
    if (!rc && !db->is_searching && db->damage.code && kern_salvage_count(db->salvage) == 0) {
        *err = db->damage;
        rc = err->code;
    }
    return rc;
}

bool kern_db_is_searching(const struct kern_db *db) { return db->is_searching; }

static enum kiln_code make_temp_directory(char directory[DIRECTORY_MAX], struct kiln_err *err)
{
    const char *const places[] = { getenv("TMPDIR"), "/var/tmp", "/tmp" };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        int size = places[i] ? snprintf(directory, DIRECTORY_MAX, "%s/kiln-kdb-XXXXXX", places[i])
                             : DIRECTORY_MAX;
        if (size < DIRECTORY_MAX && mkdtemp(directory))
            return KILN_OK;
    }
    return kiln_fail_errno(err, errno,
                           "cannot create a directory for a copy in TMPDIR, /var/tmp or /tmp");
}

static enum kiln_code open_copy(struct kern_db *db, const char *copy, struct kiln_err *err)
{
    struct log_state log = { 0 };
    enum kiln_code rc = db_snapshot(db->path, copy, err);
    if (!rc) {
        rc = db_snapshot_save(copy, &log, err);
        if (rc == KILN_CORRUPT) /* then the copy is read without its log */
            rc = KILN_OK;
    }
    db->log_damaged = log.damaged;
    if (!rc)
        rc = open_file(db, copy, err);
    if (!rc)
        rc = open_sqlite(db, copy, (struct bytes){ 0 }, err);
    if (rc != KILN_CORRUPT || db->fd < 0)
        return rc;
    rc = open_damaged(db, err);
    return rc ? rc : kern_db_search(db, UINT64_MAX, err);
}

/* Opens a copy of a file that MIOpen may be using. The copy is unlinked when this returns, so it
 * does not remain on the disk, even if the process crashes. */
static enum kiln_code open_live(struct kern_db *db, struct kiln_err *err)
{
    char directory[DIRECTORY_MAX], copy[DIRECTORY_MAX + sizeof(COPY_NAME)];
    enum kiln_code rc = make_temp_directory(directory, err);
    if (rc)
        return rc;
    snprintf(copy, sizeof(copy), "%s" COPY_NAME, directory);
    rc = open_copy(db, copy, err);
    db_snapshot_remove(copy);
    rmdir(directory);
    struct kiln_err why = *err;
    return rc == KILN_FULL
               ? kiln_fail(err, rc, "%s; set TMPDIR to a directory with more free space", why.text)
               : rc;
}

static enum kiln_code open_in_place(struct kern_db *db, const char *path, bool salvage,
                                    struct kiln_err *err)
{
    enum kiln_code rc = open_file(db, path, err);
    if (rc)
        return rc;
    rc = open_sqlite(db, path, (struct bytes){ 0 }, err);
    return rc == KILN_CORRUPT && salvage ? open_damaged(db, err) : rc;
}

enum kiln_code kern_db_open(const char *path, enum kern_db_mode mode, struct kern_db **ret_db,
                            struct kiln_err *err)
{
    KILN_AUTO(kern_db) struct kern_db *db = calloc(1, sizeof(*db));
    if (db)
        *db = (struct kern_db){ .fd = -1, .path = strdup(path) };
    if (!db || !db->path)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open '%s'", path);
    enum kiln_code rc = mode == KERN_DB_LIVE
                            ? open_live(db, err)
                            : open_in_place(db, path, mode == KERN_DB_SALVAGE, err);
    if (!rc)
        *ret_db = KILN_TAKE(db);
    return rc;
}

enum kiln_code kern_db_open_image(struct bytes image, const char *name, struct kern_db **ret_db,
                                  struct kiln_err *err)
{
    KILN_AUTO(kern_db) struct kern_db *db = calloc(1, sizeof(*db));
    if (db)
        *db = (struct kern_db){ .fd = -1, .path = strdup(name), .size = image.size };
    if (!db || !db->path)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open '%s'", name);
    enum kiln_code rc = open_sqlite(db, name, image, err);
    if (!rc)
        *ret_db = KILN_TAKE(db);
    return rc;
}

void kern_db_destroy(struct kern_db *db)
{
    if (!db)
        return;
    kern_salvage_destroy(db->salvage);
    db_destroy(db->db);
    if (db->fd >= 0)
        close(db->fd);
    free(db->path);
    free(db);
}

enum kiln_code kern_db_copy(const char *from, const char *to, uint64_t *ret_lost,
                            struct kiln_err *err)
{
    struct log_state log = { 0 };
    enum kiln_code rc = db_snapshot(from, to, err);
    if (rc)
        return rc;
    rc = db_snapshot_save(to, &log, err);
    if (!rc)
        rc = db_sync_file(to, err);
    if (rc)
        db_snapshot_remove(to);
    else
        *ret_lost = log.lost;
    return rc ? kiln_while(err, "copying '%s'", from) : KILN_OK;
}

/* ---- lookups ---- */

struct kern_row kern_db_row(const struct query *q)
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
    struct kern_row row = kern_db_row(&q);
    if (!bytes_equal(row.name, name->name) || !bytes_equal(row.args, name->args))
        return kiln_fail(err, KILN_CORRUPT, "the index of '%s' leads to row %llu of another kernel",
                         db->path, (unsigned long long)row.id);
    rc = kern_row_unpack(&row, raw, err);
    return rc ? kiln_while(err, "'%s'", db->path) : KILN_OK;
}

/* Unpacks the first row with this name that passes its check. */
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
    enum kiln_code rc = KILN_CORRUPT;
    if (db->db)
        rc = find_row(db, name, ret_raw, err);
    else
        kiln_fail(err, rc, "'%s' is too damaged for lookups", db->path);
    *ret_damaged = rc == KILN_CORRUPT;
    return rc == KILN_CORRUPT ? KILN_NOT_FOUND : rc;
}

enum kiln_code kern_db_count(struct kern_db *db, uint64_t *ret_rows, struct kiln_err *err)
{
    if (!db->db) {
        enum kiln_code rc = kern_db_search(db, UINT64_MAX, err);
        *ret_rows = rc ? 0 : kern_salvage_count(db->salvage);
        return rc;
    }
    QUERY_AUTO struct query q = query_of(db->db, KERN_DB_COUNT);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (!rc)
        *ret_rows = query_u64(&q, 0);
    return rc;
}
