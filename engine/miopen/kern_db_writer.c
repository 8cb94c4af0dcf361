/* SPDX-License-Identifier: MIT */
#include "common/limits.h"
#include "engine/db/new_file.h"
#include "engine/digest/md5.h"
#include "engine/miopen/bzip2.h"
#include "engine/miopen/kern_db_parts.h"

#include <string.h>

/* The exact text of MIOpen's own statements, because sqlite_schema stores it. */
static const char schema[] = "CREATE TABLE IF NOT EXISTS `kern_db` ("
                             "`id` INTEGER PRIMARY KEY ASC"
                             ",`kernel_name` TEXT NOT NULL"
                             ",`kernel_args` TEXT NOT NULL"
                             ",`kernel_blob` BLOB NOT NULL"
                             ",`kernel_hash` TEXT NOT NULL"
                             ",`uncompressed_size` INT NOT NULL"
                             ");"
                             "CREATE UNIQUE INDEX IF NOT EXISTS `idx_kern_db` "
                             "ON kern_db(kernel_name, kernel_args);";

static const char *const statements[] = {
    "insert or ignore into kern_db (kernel_name, kernel_args, kernel_blob, kernel_hash,"
    " uncompressed_size) values (?1, ?2, ?3, ?4, ?5)"
};

struct kern_db_writer {
    struct db *db; /* owned; NULL once finished */
};

enum kiln_code kern_db_create(const char *path, struct kern_db_writer **ret_writer,
                              struct kiln_err *err)
{
    KILN_AUTO(kern_db_writer) struct kern_db_writer *writer = calloc(1, sizeof(*writer));
    if (!writer)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to write '%s'", path);
    struct db_new_file_options options = { .path = path,
                                           .setup = schema,
                                           .statements = statements,
                                           .statement_count = 1,
                                           .value_max =
                                               LIMIT_CODE_OBJECT + 4ull * KERN_DB_TEXT_MAX };
    enum kiln_code rc = db_new_file(&options, &writer->db, err);
    if (!rc)
        *ret_writer = KILN_TAKE(writer);
    return rc;
}

void kern_db_writer_destroy(struct kern_db_writer *writer)
{
    if (!writer)
        return;
    db_new_file_abandon(writer->db);
    free(writer);
}

static enum kiln_code check_text(struct bytes text, const char *what, struct kiln_err *err)
{
    if (text.size > KERN_DB_TEXT_MAX)
        return kiln_fail(err, KILN_INVALID, "a kernel's %s may have at most %u bytes, not %zu",
                         what, KERN_DB_TEXT_MAX, text.size);
    if (text.size && memchr(text.data, '\0', text.size))
        return kiln_fail(err, KILN_INVALID, "a kernel's %s may not contain a NUL", what);
    return KILN_OK;
}

static enum kiln_code check_kernel(struct bytes name, struct bytes args, struct bytes raw,
                                   struct kiln_err *err)
{
    enum kiln_code rc = check_text(name, "name", err);
    if (!rc)
        rc = check_text(args, "arguments", err);
    if (!rc && raw.size == 0)
        rc = kiln_fail(err, KILN_INVALID, "MIOpen cannot store an empty object");
    if (!rc && raw.size > LIMIT_CODE_OBJECT)
        rc = kiln_fail(err, KILN_INVALID, "an object may have at most %u bytes, not %zu",
                       LIMIT_CODE_OBJECT, raw.size);
    return rc;
}

static enum kiln_code insert_row(struct kern_db_writer *writer, const struct kern_row *row,
                                 struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(writer->db, 0);
    query_bind_text_view(&q, 1, row->name);
    query_bind_text_view(&q, 2, row->args);
    query_bind_bytes(&q, 3, row->stored);
    query_bind_text_view(&q, 4, row->md5);
    query_bind_u64(&q, 5, row->raw_size);
    enum kiln_code rc = query_run(&q, err);
    if (!rc && db_changes(writer->db) == 0)
        rc = kiln_fail(err, KILN_INVALID,
                       "the file has a kernel with this name and arguments already");
    return rc;
}

enum kiln_code kern_db_writer_add(struct kern_db_writer *writer, struct bytes name,
                                  struct bytes args, struct bytes raw, struct kiln_err *err)
{
    BUFFER_AUTO struct buffer packed;
    buffer_init(&packed, raw.size);
    char md5[MD5_HEX_SIZE];
    bool fits = false;
    enum kiln_code rc = check_kernel(name, args, raw, err);
    if (!rc)
        rc = bzip2_pack(raw, &packed, &fits, err);
    if (!rc) {
        md5_hex_of(raw, md5);
        const struct kern_row row = { .name = name,
                                      .args = args,
                                      .stored = fits ? buffer_view(&packed) : raw,
                                      .md5 = bytes_of_text(md5),
                                      .raw_size = fits ? raw.size : 0 };
        rc = insert_row(writer, &row, err);
    }
    return rc ? kiln_while(err, "adding the kernel '%.*s'", name.size > 120 ? 120 : (int)name.size,
                           (const char *)name.data)
              : KILN_OK;
}

enum kiln_code kern_db_writer_finish(struct kern_db_writer *writer, struct kiln_err *err)
{
    struct db *db = writer->db;
    writer->db = NULL;
    return db_new_file_finish(db, err);
}
