/* SPDX-License-Identifier: MIT */
#include "common/protocol/limits.h"
#include "engine/codec/bzip2.h"
#include "engine/db/new_file.h"
#include "engine/db/query.h"
#include "engine/digest/md5.h"
#include "engine/miopen/kern_db.h"

#include <string.h>

/* Exactly MIOpen's text, because SQLite stores this text in the file (in sqlite_schema). */
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
                                               LIMIT_CODE_OBJECT + 4ull * LIMIT_NAMED_TEXT };
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
    if (text.size > LIMIT_NAMED_TEXT)
        return kiln_fail(err, KILN_INVALID, "a kernel's %s may have at most %u bytes, not %zu",
                         what, LIMIT_NAMED_TEXT, text.size);
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

struct kern_packing {
    struct bytes name, args, raw;
    struct bzip2_packer *packer;
    struct md5 md5;
    size_t done;
};

static enum kiln_code name_kernel(struct bytes name, struct kiln_err *err)
{
    return kiln_while(err, "adding the kernel '%.*s'", name.size > 120 ? 120 : (int)name.size,
                      (const char *)name.data);
}

enum kiln_code kern_packing_begin(const struct kern_name *name, struct bytes raw,
                                  struct kern_packing **ret_packing, struct kiln_err *err)
{
    if (check_kernel(name->name, name->args, raw, err))
        return name_kernel(name->name, err);
    KILN_AUTO(kern_packing) struct kern_packing *p = calloc(1, sizeof(*p));
    if (!p)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to pack an object");
    p->name = name->name;
    p->args = name->args;
    p->raw = raw;
    md5_init(&p->md5);
    if (bzip2_packer_open(raw.size, &p->packer, err))
        return name_kernel(name->name, err);
    *ret_packing = KILN_TAKE(p);
    return KILN_OK;
}

enum kiln_code kern_packing_continue(struct kern_packing *p, size_t size, bool *ret_more,
                                     struct kiln_err *err)
{
    size_t left = p->raw.size - p->done;
    struct bytes piece = bytes_of(p->raw.data + p->done, left < size ? left : size);
    if (bzip2_packer_put(p->packer, piece, err))
        return name_kernel(p->name, err);
    md5_put(&p->md5, piece);
    p->done += piece.size;
    *ret_more = p->done < p->raw.size;
    return KILN_OK;
}

void kern_packing_destroy(struct kern_packing *packing)
{
    if (!packing)
        return;
    bzip2_packer_destroy(packing->packer);
    free(packing);
}

enum kiln_code kern_db_writer_put(struct kern_db_writer *writer, struct kern_packing *p,
                                  struct kiln_err *err)
{
    struct bytes packed = { 0 };
    char md5[MD5_HEX_SIZE];
    bool fits = false;
    enum kiln_code rc = bzip2_packer_finish(p->packer, &packed, &fits, err);
    if (!rc) {
        md5_end(&p->md5, md5);
        const struct kern_row row = { .name = p->name,
                                      .args = p->args,
                                      .stored = fits ? packed : p->raw,
                                      .md5 = bytes_of_text(md5),
                                      .raw_size = fits ? p->raw.size : 0 };
        rc = insert_row(writer, &row, err);
    }
    return rc ? name_kernel(p->name, err) : KILN_OK;
}

enum kiln_code kern_db_writer_add(struct kern_db_writer *writer, struct bytes name,
                                  struct bytes args, struct bytes raw, struct kiln_err *err)
{
    const struct kern_name full = { name, args };
    bool more = false;
    KILN_AUTO(kern_packing) struct kern_packing *packing = NULL;
    enum kiln_code rc = kern_packing_begin(&full, raw, &packing, err);
    if (!rc)
        rc = kern_packing_continue(packing, raw.size, &more, err);
    return rc ? rc : kern_db_writer_put(writer, packing, err);
}

enum kiln_code kern_db_writer_finish(struct kern_db_writer *writer, struct kiln_err *err)
{
    struct db *db = writer->db;
    writer->db = NULL;
    return db_new_file_finish(db, err);
}
