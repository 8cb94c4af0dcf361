/* SPDX-License-Identifier: MIT */
#include "engine/tuning/tuning_db_parts.h"

#include "engine/db/backup.h"
#include "engine/db/new_file.h"

#include <stdio.h>

enum kiln_code tuning_file_finish(const struct tuning_db *db, const char *name, struct db *file,
                                  struct kiln_err *err)
{
    KILN_AUTO(mem) char *path = NULL;
    if (asprintf(&path, "%s/%s", db->directory, name) < 0)
        path = NULL;
    enum kiln_code rc =
        path ? db_checkpoint(file, err)
             : kiln_fail(err, KILN_NO_MEMORY, "cannot write '%s': out of memory", db->path);
    db_destroy(file); /* also removes the log, which is empty now */
    return rc ? rc : db_sync_file(path, err);
}

enum kiln_code tuning_db_verify(struct tuning_db *db, struct kiln_err *err)
{
    return tuning_file_check(db->db, db->rows, err);
}

unsigned tuning_db_log_pages(const struct tuning_db *db) { return db_log_pages(db->db); }

enum kiln_code tuning_db_checkpoint(struct tuning_db *db, struct kiln_err *err)
{
    return db_checkpoint_in_place(db->db, err);
}

/* Uses a separate connection, so that the main connection may write meanwhile. */
enum kiln_code tuning_db_backup(struct tuning_db *db, const char *path, struct kiln_err *err)
{
    KILN_AUTO(db) struct db *reader = NULL;
    struct db_options options = { .path = db->path,
                                  .value_max = TUNING_CONTENT_MAX + (1u << 20),
                                  .cache_kib = 512,
                                  .read_only = true };
    enum kiln_code rc = db_open(&options, &reader, err);
    if (!rc)
        rc = db_backup(reader, path, err);
    return rc ? kiln_while(err, "backing up the tuning database") : KILN_OK;
}

enum kiln_code tuning_db_vacuum(struct tuning_db *db, uint64_t *ret_freed, struct kiln_err *err)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    if (db->changing)
        return kiln_fail(err, KILN_BUSY,
                         "another change of the tuning database is in progress: try again");
    /* |before| and |after| include the log's size.  The log is empty for |after|, so empty it for
     * |before|, too. */
    (void)!db_checkpoint(db->db, &ignored);
    uint64_t before = tuning_db_bytes(db);
    enum kiln_code rc = db_vacuum(db->db, err);
    if (!rc)
        rc = db_checkpoint(db->db, err);
    if (rc)
        return kiln_while(err, "vacuuming the tuning database");
    uint64_t after = tuning_db_bytes(db);
    *ret_freed = before > after ? before - after : 0;
    return KILN_OK;
}
