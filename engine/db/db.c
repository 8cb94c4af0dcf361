/* SPDX-License-Identifier: MIT */
#include "engine/db/connection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* How long SQLite waits for a lock. A writer in another process usually holds a lock for
 * milliseconds. */
#define BUSY_MS 5000
#define LOG_PAGES 1000u
#define LOG_PAGE_BYTES 4120u
/* 0: SQLite maps no files. Reading a mapped file that was truncated raises SIGBUS, whereas pread
 * returns an error code. */
#define MMAP_BYTES 0

/* Prevents harm by SQL in the schema of a file that is not trusted. */
static const struct {
    int option;
    int value;
} settings[] = {
    { SQLITE_DBCONFIG_DEFENSIVE, 1 },
    { SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
    { SQLITE_DBCONFIG_ENABLE_VIEW, 0 },
    { SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0 },
    { SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0 },
    { SQLITE_DBCONFIG_DQS_DML, 0 },
    { SQLITE_DBCONFIG_DQS_DDL, 0 },
    { SQLITE_DBCONFIG_ENABLE_FKEY, 1 },
    { SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0 },
};

/* Returns a URI, the only form in which SQLite accepts |immutable| and |readonly_shm|: "/a b"
 * becomes "file:/a%20b?immutable=1". */
static char *uri_of(const struct db_options *o)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
    const char *how = o->immutable ? "?immutable=1" : "?readonly_shm=1";
    char *uri = malloc(3 * strlen(o->path) + sizeof("file:") + strlen(how));
    if (!uri)
        return NULL;
    char *at = stpcpy(uri, "file:");
    for (const char *c = o->path; *c; c++) {
        bool authority = c == o->path + 1 && *c == '/'; /* in "file://x", x would be a host name */
        if (strchr(plain, *c) && !authority)
            *at++ = *c;
        else
            at += sprintf(at, "%%%02X", (unsigned char)*c);
    }
    strcpy(at, how);
    return uri;
}

/* Opens memory that SQLite reads in place and never writes to. */
static int open_image(struct db *db, struct bytes image)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_READWRITE;
    int rc = sqlite3_open_v2(":memory:", &db->handle, flags, NULL);
    if (rc != SQLITE_OK)
        return rc;
    return sqlite3_deserialize(db->handle, "main", (unsigned char *)(uintptr_t)image.data,
                               (sqlite3_int64)image.size, (sqlite3_int64)image.size,
                               SQLITE_DESERIALIZE_READONLY);
}

static int open_handle(struct db *db, const struct db_options *o)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    if (o->image.size > 0)
        return open_image(db, o->image);
    if (!o->immutable && !o->leave_files) {
        flags |= SQLITE_OPEN_READWRITE;
        if (o->schema && !o->read_only)
            flags |= SQLITE_OPEN_CREATE;
        return sqlite3_open_v2(o->path, &db->handle, flags, NULL);
    }
    KILN_AUTO(mem) char *uri = uri_of(o);
    if (!uri)
        return SQLITE_NOMEM;
    return sqlite3_open_v2(uri, &db->handle, flags | SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
}

/* Opens the file for writing. If SQLite cannot do that at this moment, it opens the file read-only
 * without an error, and the connection stays read-only. In that case, this function closes the
 * connection and tries a second time. */
static int open_to_write(struct db *db, const struct db_options *o)
{
    for (unsigned tries = 0; tries < 2; tries++) {
        int rc = open_handle(db, o);
        if (rc != SQLITE_OK || sqlite3_db_readonly(db->handle, "main") != 1)
            return rc;
        sqlite3_close(db->handle);
        db->handle = NULL;
    }
    return SQLITE_READONLY;
}

static enum kiln_code open_file(struct db *db, const struct db_options *o, struct kiln_err *err)
{
    bool writes = o->schema && !o->read_only;
    int rc = writes ? open_to_write(db, o) : open_handle(db, o);
    for (size_t i = 0; rc == SQLITE_OK && i < sizeof(settings) / sizeof(settings[0]); i++)
        rc = sqlite3_db_config(db->handle, settings[i].option, settings[i].value, NULL);
    if (rc != SQLITE_OK)
        return db_fail(db, rc, "open", err);
    sqlite3_busy_timeout(db->handle, BUSY_MS);
    sqlite3_limit(db->handle, SQLITE_LIMIT_LENGTH, (int)o->value_max);
    sqlite3_limit(db->handle, SQLITE_LIMIT_ATTACHED, 0);
    if (o->foreign)
        db_limit_foreign(db);
    return KILN_OK;
}

static bool is_empty(struct db *db)
{
    sqlite3_stmt *statement = NULL;
    bool empty =
        sqlite3_prepare_v2(db->handle, "pragma page_count", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_int(statement, 0) == 0;
    sqlite3_finalize(statement);
    return empty;
}

/* Replaces SQLite's default hook: checkpoints the log as that hook does, and also records the
 * length of the log. */
static int on_commit(void *context, sqlite3 *handle, const char *name, int pages)
{
    struct db *db = context;
    db->log_pages = pages;
    if (pages >= db->log_max) /* a failure will show in the next write */
        (void)sqlite3_wal_checkpoint_v2(handle, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return SQLITE_OK;
}

unsigned db_log_pages(const struct db *db) { return (unsigned)db->log_pages; }

static const char *synchronous_of(const struct db_options *o)
{
    return o->full_sync ? "full" : "normal";
}

/* Configures a new connection. page_size and auto_vacuum are set only for a new file: they take
 * effect only before the first table and before WAL mode. In an existing file, setting auto_vacuum
 * would rewrite the header, with two syncs. A new file has no data to lose, so nothing is synced
 * until complete_new_file. */
static enum kiln_code configure_connection(struct db *db, const struct db_options *o,
                                           bool *ret_fresh, struct kiln_err *err)
{
    unsigned log_pages = o->log_pages ? o->log_pages : LOG_PAGES;
    unsigned long long log_bytes = o->log_pages ? o->log_pages * LOG_PAGE_BYTES : 16ull << 20;
    bool fresh = o->schema && !o->read_only && is_empty(db);
    char sql[500];
    snprintf(sql, sizeof(sql),
             "pragma synchronous = %s; %s pragma cell_size_check = on; pragma secure_delete = off; "
             "pragma temp_store = memory;"
             "pragma mmap_size = %d; pragma cache_size = -%u;"
             "pragma journal_size_limit = %llu",
             fresh ? "off" : synchronous_of(o),
             fresh ? "pragma page_size = 4096; pragma auto_vacuum = incremental;" : "", MMAP_BYTES,
             o->cache_kib, log_bytes);
    enum kiln_code rc = db_exec(db, sql, "set up", err);
    if (rc)
        return rc;
    db->log_max = (int)log_pages;
    sqlite3_wal_hook(db->handle, on_commit, db);
    *ret_fresh = fresh;
    return KILN_OK;
}

/* Syncs the header and the schema to the disk before the first commit that must survive a power
 * cut, because SQLite ignores the log of an empty database file. */
static enum kiln_code complete_new_file(struct db *db, const struct db_options *o,
                                        struct kiln_err *err)
{
    char sql[40];
    snprintf(sql, sizeof(sql), "pragma synchronous = %s", synchronous_of(o));
    enum kiln_code rc = db_exec(db, sql, "set up", err);
    return rc || !o->full_sync ? rc : db_checkpoint(db, err);
}

/* Lengthens the log with zeros to the size at which it is checkpointed, so that commits overwrite
 * blocks that the file already has. If a commit made the file longer, the sync of the commit would
 * also write the file's metadata. On a filesystem with a journal, the sync would then wait for the
 * changes of all processes. SQLite ignores everything after the last commit in the log. If
 * lengthening fails, each commit makes the log longer. */
static void lengthen_log(struct db *db)
{
    static const uint8_t zeros[64u << 10];
    sqlite3_file *log = NULL;
    sqlite3_int64 size = 0, end = (sqlite3_int64)db->log_max * LOG_PAGE_BYTES;
    int rc = sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (rc == SQLITE_OK)
        rc = log->pMethods ? log->pMethods->xFileSize(log, &size) : SQLITE_NOTFOUND;
    for (; rc == SQLITE_OK && size < end; size += sizeof(zeros))
        rc = log->pMethods->xWrite(log, zeros, sizeof(zeros), size);
    db->has_long_log = true;
}

/* Sets WAL mode. The pragma returns the mode of the file, and reports no error if this is still
 * another mode. In that case, this function fails. */
static enum kiln_code use_wal(struct db *db, struct kiln_err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db->handle, "pragma journal_mode = wal", -1, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    const char *mode = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    bool wal = mode && strcmp(mode, "wal") == 0;
    enum kiln_code code = KILN_OK;
    if (rc != SQLITE_ROW)
        code = db_fail(db, rc, "open", err);
    else if (!wal)
        code = kiln_fail(err, KILN_UNSUPPORTED,
                         "cannot use '%s': its filesystem has no shared memory for SQLite's "
                         "write-ahead log; set a directory on a local filesystem",
                         db->path);
    sqlite3_finalize(statement);
    return code;
}

enum kiln_code db_keep_statements(struct db *db, const char *const *statements,
                                  size_t statement_count, struct kiln_err *err)
{
    free(db->prepared); /* has no statements yet */
    db->prepared = calloc(statement_count ? statement_count : 1, sizeof(*db->prepared));
    if (!db->prepared)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open '%s': out of memory", db->path);
    db->prepared_count = statement_count;
    db->statements = statements;
    return KILN_OK;
}

int db_prepare_one(struct db *db, size_t statement)
{
    return db->prepared[statement]
               ? SQLITE_OK
               : sqlite3_prepare_v3(db->handle, db->statements[statement], -1,
                                    SQLITE_PREPARE_PERSISTENT, &db->prepared[statement], NULL);
}

enum kiln_code db_prepare_all(struct db *db, struct kiln_err *err)
{
    for (size_t i = 0; i < db->prepared_count; i++) {
        errno = 0;
        int rc = db_prepare_one(db, i);
        if (rc != SQLITE_OK)
            return db_fail(db, rc, "use the tables of", err);
    }
    return KILN_OK;
}

static enum kiln_code prepare_rollback(struct db *db, struct kiln_err *err)
{
    int rc = sqlite3_prepare_v3(db->handle, "rollback", -1, SQLITE_PREPARE_PERSISTENT,
                                &db->rollback, NULL);
    return rc == SQLITE_OK ? KILN_OK : db_fail(db, rc, "open", err);
}

enum kiln_code db_open(const struct db_options *options, struct db **ret_db, struct kiln_err *err)
{
    KILN_AUTO(db) struct db *db = calloc(1, sizeof(*db));
    if (db)
        db->path = strdup(options->shown ? options->shown : options->path);
    if (!db || !db->path)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open '%s': out of memory", options->path);
    db->read_only = options->read_only;
    db->full_sync = options->full_sync;
    db->is_foreign = options->foreign;
    db->misreads = options->read_only ? options->misreads : NULL;

    bool fresh = false;
    enum kiln_code rc = open_file(db, options, err);
    if (!rc)
        rc = configure_connection(db, options, &fresh, err);
    if (!rc && options->schema && !options->read_only)
        rc = use_wal(db, err);
    if (!rc && options->schema)
        rc = options->read_only ? db_check_schema(db, options->schema, err)
                                : db_migrate(db, options->schema, err);
    if (!rc && fresh)
        rc = complete_new_file(db, options, err);
    if (!rc && options->read_only)
        rc = db_exec(db, "pragma query_only = on", "set up", err);
    if (!rc && options->table)
        rc = db_check_table(db, options->table, err);
    if (!rc)
        rc = db_keep_statements(db, options->statements, options->statement_count, err);
    if (!rc && options->foreign)
        rc = db_prepare_all(db, err);
    if (!rc && !options->read_only)
        rc = prepare_rollback(db, err);
    if (!rc)
        *ret_db = KILN_TAKE(db);
    return rc;
}

void db_destroy(struct db *db)
{
    if (!db)
        return;
    for (size_t i = 0; i < db->prepared_count; i++)
        sqlite3_finalize(db->prepared[i]);
    free(db->prepared);
    sqlite3_finalize(db->rollback);
    sqlite3_close(db->handle);
    free(db->path);
    free(db);
}

uint64_t db_changes(const struct db *db) { return (uint64_t)sqlite3_changes64(db->handle); }

uint64_t db_last_id(const struct db *db) { return (uint64_t)sqlite3_last_insert_rowid(db->handle); }

void db_forget_pages(struct db *db) { sqlite3_db_release_memory(db->handle); }

static enum kiln_code checkpoint(struct db *db, int mode, struct kiln_err *err)
{
    errno = 0;
    int rc = sqlite3_wal_checkpoint_v2(db->handle, NULL, mode, NULL, NULL);
    bool waits = (rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED;
    if (rc != SQLITE_OK && !waits)
        return db_fail(db, rc, "write to", err);
    if (mode == SQLITE_CHECKPOINT_TRUNCATE)
        db->has_long_log = false;
    return KILN_OK;
}

enum kiln_code db_checkpoint(struct db *db, struct kiln_err *err)
{
    return checkpoint(db, SQLITE_CHECKPOINT_TRUNCATE, err);
}

enum kiln_code db_checkpoint_in_place(struct db *db, struct kiln_err *err)
{
    return checkpoint(db, SQLITE_CHECKPOINT_PASSIVE, err);
}

enum kiln_code db_checkpoint_now(struct db *db, struct kiln_err *err)
{
    sqlite3_busy_timeout(db->handle, 0);
    enum kiln_code rc = db_checkpoint(db, err);
    sqlite3_busy_timeout(db->handle, BUSY_MS);
    return rc;
}

enum kiln_code transaction_begin(struct transaction *t, struct db *db, struct kiln_err *err)
{
    enum kiln_code rc = db_unstick(db, err);
    if (!rc && db->full_sync && !db->has_long_log)
        lengthen_log(db);
    if (!rc)
        rc = db_exec(db, "begin immediate", "lock", err);
    if (!rc)
        t->db = db;
    return rc;
}

enum kiln_code transaction_commit(struct transaction *t, struct kiln_err *err)
{
    enum kiln_code rc = db_exec(t->db, "commit", "write to", err);
    if (!rc)
        t->db = NULL;
    return rc;
}

/* Returns whether no transaction is open. After some failures, SQLite has already rolled back. */
static bool roll_back(struct db *db)
{
    if (!sqlite3_get_autocommit(db->handle)) {
        sqlite3_step(db->rollback);
        sqlite3_reset(db->rollback);
    }
    return sqlite3_get_autocommit(db->handle);
}

enum kiln_code db_unstick(struct db *db, struct kiln_err *err)
{
    if (db->stuck && !roll_back(db))
        return db_fail(db, SQLITE_NOMEM, "roll back a failed change of", err);
    db->stuck = false;
    return KILN_OK;
}

void transaction_done(struct transaction *t)
{
    if (t->db)
        t->db->stuck = !roll_back(t->db);
    t->db = NULL;
}
