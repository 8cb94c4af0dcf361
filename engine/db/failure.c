/* SPDX-License-Identifier: MIT */
#include "engine/db/connection.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

struct meaning {
    enum kiln_code code;
    const char *advice;
};

static const struct meaning damaged = { KILN_CORRUPT, "the file is damaged" };
static const struct meaning disk_full = {
    KILN_FULL, "free disk space, set a smaller limit or another directory"
};
static const struct meaning locked = { KILN_BUSY, "another process has locked it; try again" };
static const struct meaning forbidden = {
    KILN_DENIED, "check the owner and permissions of the file and its directory, and that the "
                 "filesystem is writable"
};
static const struct meaning memory = { KILN_NO_MEMORY, "try again" };
static const struct meaning io_error = { KILN_IO, "check the disk, or set another directory" };

/* Evaluates errno, because SQLite reports an exceeded quota or file size limit as an I/O error. */
static const struct meaning *from_errno(int errnum, const struct meaning *otherwise)
{
    switch (errnum) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return &disk_full;
    case EACCES:
    case EPERM:
    case EROFS: return &forbidden;
    default: return otherwise;
    }
}

static const struct meaning *meaning_of(int rc, int errnum)
{
    switch (rc & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_TOOBIG:     /* a value is longer than any that kiln stores */
    case SQLITE_CONSTRAINT: /* kiln checks its input, so an index must contradict its table */
    case SQLITE_MISMATCH:
    case SQLITE_SCHEMA:
    case SQLITE_INTERRUPT: /* the statement did more work than any valid file needs */
    case SQLITE_ERROR:     /* kiln's SQL is constant and tested, so the schema must be damaged */
        return &damaged;
    case SQLITE_FULL:
    case SQLITE_NOLFS: return &disk_full;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: return &locked;
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY: return &forbidden;
    case SQLITE_NOMEM: return &memory;
    default: return rc == SQLITE_IOERR_CORRUPTFS ? &damaged : from_errno(errnum, &io_error);
    }
}

/* Finds the error number of a failed system call. After a failed access to the log, the number is
 * still in errno, which kiln sets to 0 before each statement. Otherwise, SQLite has stored it in
 * the connection or, after a failed "commit", only in the file object. */
static int errno_of(const struct db *db, int rc)
{
    int errnum = errno;
    if (from_errno(errnum, NULL) || errnum == EIO)
        return errnum;
    errnum = db->handle ? sqlite3_system_errno(db->handle) : 0;
    if (db->handle && errnum == 0 && (rc & 0xff) == SQLITE_IOERR)
        sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_LAST_ERRNO, &errnum);
    return errnum;
}

/* Distinguishes a read-only filesystem from a read-only file, because SQLite has the same code for
 * both. */
static bool is_on_read_only(const struct db *db)
{
    struct statvfs seen;
    return statvfs(db->path, &seen) == 0 && (seen.f_flag & ST_RDONLY);
}

/* Returns true if a read of another program's file failed with EIO, which SQLite reports as damage.
 * The file may be readable later, for example if it is on a server that is absent now. In kiln's
 * own databases, EIO counts as damage, because kiln replaces a database that cannot be read. */
static bool is_failed_read(const struct db *db, int rc, int errnum)
{
    bool is_damage = (rc & 0xff) == SQLITE_CORRUPT || rc == SQLITE_IOERR_CORRUPTFS;
    return db->is_foreign && is_damage && errnum == EIO;
}

enum kiln_code db_fail(const struct db *db, int rc, const char *doing, struct kiln_err *err)
{
    int errnum = errno_of(db, rc);
    const char *why = db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(rc);
    if (is_failed_read(db, rc, errnum)) {
        rc = SQLITE_IOERR_READ;
        why = sqlite3_errstr(rc);
    }
    const struct meaning *m = meaning_of(rc, errnum);
    bool system = ((rc & 0xff) == SQLITE_IOERR || (rc & 0xff) == SQLITE_CANTOPEN) && errnum;
    if ((rc & 0xff) == SQLITE_READONLY && is_on_read_only(db)) {
        errnum = EROFS;
        system = true;
    }
    return kiln_fail(err, m->code, "cannot %s '%s': %s%s%s; %s", doing, db->path, why,
                     system ? ": " : "", system ? strerror(errnum) : "", m->advice);
}

enum kiln_code db_exec(struct db *db, const char *sql, const char *doing, struct kiln_err *err)
{
    errno = 0;
    int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? KILN_OK : db_fail(db, rc, doing, err);
}

enum kiln_code db_number(struct db *db, const char *sql, int64_t *ret_number, struct kiln_err *err)
{
    sqlite3_stmt *statement = NULL;
    errno = 0;
    int rc = sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    int64_t number = rc == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    bool failed = rc != SQLITE_ROW && rc != SQLITE_DONE;
    enum kiln_code code = failed ? db_fail(db, rc, "read", err) : KILN_OK;
    sqlite3_finalize(statement);
    if (!code)
        *ret_number = number;
    return code;
}
