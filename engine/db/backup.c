/* SPDX-License-Identifier: MIT */
#include "engine/db/backup.h"

#include "engine/db/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* The copy needs no journal and no fsync: nobody reads it before it is complete. */
static const char tune[] = "pragma journal_mode = memory; pragma synchronous = off";

static enum kiln_code create_empty_file(const char *path, struct kiln_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == EEXIST)
        return kiln_fail(err, KILN_INVALID,
                         "cannot create '%s': the file exists; choose another name", path);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot create '%s'", path);
    close(fd);
    return KILN_OK;
}

/* Copies in one step, so that no other connection can write in between. */
static enum kiln_code copy_pages(struct db *from, struct db *to, struct kiln_err *err)
{
    errno = 0;
    sqlite3_backup *copy = sqlite3_backup_init(to->handle, "main", from->handle, "main");
    int stepped = copy ? sqlite3_backup_step(copy, -1) : sqlite3_errcode(to->handle);
    int rc = copy ? sqlite3_backup_finish(copy) : stepped;
    if (stepped == SQLITE_BUSY || stepped == SQLITE_LOCKED)
        rc = stepped; /* sqlite3_backup_finish does not return this code */
    if (rc != SQLITE_OK)
        return db_fail(to, rc, "copy to", err);
    return KILN_OK;
}

/* Opens the copy without locks ("unix-none"), because its filesystem may not support locks. */
static enum kiln_code write_copy(struct db *from, struct db *to, struct kiln_err *err)
{
    int rc = sqlite3_open_v2(to->path, &to->handle,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                                 SQLITE_OPEN_NOFOLLOW,
                             "unix-none");
    if (rc != SQLITE_OK)
        return db_fail(to, rc, "open", err);
    enum kiln_code code = db_exec(to, tune, "set up", err);
    if (!code)
        code = copy_pages(from, to, err);
    /* Switches the copy to rollback mode. The header was copied from a file in WAL mode. In WAL
     * mode, every program that opens the copy would create a log file next to it. */
    if (!code)
        code = db_exec(to, "pragma locking_mode = exclusive; pragma journal_mode = delete",
                       "write to", err);
    return code;
}

enum kiln_code db_backup(struct db *db, const char *path, struct kiln_err *err)
{
    KILN_AUTO(db) struct db *to = calloc(1, sizeof(*to));
    KILN_AUTO(mem) char *full = NULL;
    if (to)
        to->path = strdup(path);
    if (!to || !to->path)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot copy to '%s': out of memory", path);
    enum kiln_code rc = create_empty_file(path, err);
    if (rc)
        return rc;
    full = realpath(path, NULL); /* resolves all symbolic links, because SQLite's NOFOLLOW rejects
                                  * even links to directories */
    if (full) {
        free(to->path);
        to->path = KILN_TAKE(full);
    }
    rc = write_copy(db, to, err);
    sqlite3_close(to->handle);
    to->handle = NULL;
    if (rc)
        unlink(path);
    return rc;
}

enum kiln_code db_vacuum(struct db *db, struct kiln_err *err)
{
    sqlite3_limit(db->handle, SQLITE_LIMIT_ATTACHED, 1); /* VACUUM attaches its temporary file */
    enum kiln_code rc = db_exec(db, "vacuum", "pack", err);
    sqlite3_limit(db->handle, SQLITE_LIMIT_ATTACHED, 0);
    return rc;
}
