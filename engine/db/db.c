/* SPDX-License-Identifier: MIT */
#include "engine/db/connection.h"

#include <stdio.h>
#include <string.h>

/* A writer of another process holds the lock for milliseconds; a stuck one must not hang us. */
#define BUSY_MS 5000
/* Pages moved in one transaction while a file shrinks: about 16 MiB. */
#define SHRINK_PAGES 4096
/* Mapped I/O is off: a file cut short under a mapping is SIGBUS, with pread it is an answer. */
#define MMAP_BYTES 0

/* What lies in the file is not trusted, nor is it worth a leftover's overwriting with zeros. */
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

static enum kiln_code open_file(struct db *db, const struct db_options *o, struct kiln_err *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    if (o->schema)
        flags |= SQLITE_OPEN_CREATE;
    int rc = sqlite3_open_v2(db->path, &db->handle, flags, NULL);
    for (size_t i = 0; rc == SQLITE_OK && i < sizeof(settings) / sizeof(settings[0]); i++)
        rc = sqlite3_db_config(db->handle, settings[i].option, settings[i].value, NULL);
    if (rc != SQLITE_OK)
        return db_fail(db, rc, "open", err);
    sqlite3_busy_timeout(db->handle, BUSY_MS);
    sqlite3_limit(db->handle, SQLITE_LIMIT_LENGTH, (int)o->value_most);
    sqlite3_limit(db->handle, SQLITE_LIMIT_ATTACHED, 0);
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

/* page_size and auto_vacuum count only for a file that has no table yet, and before WAL; on any
 * other auto_vacuum writes its header anew, with two syncs. */
static enum kiln_code configure(struct db *db, const struct db_options *o, struct kiln_err *err)
{
    char sql[400];
    snprintf(
        sql, sizeof(sql),
        "%s pragma cell_size_check = on; pragma secure_delete = off; pragma temp_store = memory;"
        "pragma mmap_size = %d; pragma cache_size = -%u; pragma synchronous = %s;"
        "pragma journal_size_limit = %d",
        o->schema && is_empty(db) ? "pragma page_size = 4096; pragma auto_vacuum = incremental;"
                                  : "",
        MMAP_BYTES, o->cache_kib, o->full_sync ? "full" : "normal", 16 << 20);
    return db_exec(db, sql, "set up", err);
}

/* Answers with the mode now in force, so a refusal is no error of SQLite's. */
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
                         "write-ahead log; set a folder on a local filesystem",
                         db->path);
    sqlite3_finalize(statement);
    return code;
}

static enum kiln_code prepare(struct db *db, const struct db_options *o, struct kiln_err *err)
{
    db->prepared = calloc(o->statement_count ? o->statement_count : 1, sizeof(*db->prepared));
    if (!db->prepared)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open '%s': out of memory", db->path);
    db->prepared_count = o->statement_count;
    for (size_t i = 0; i < o->statement_count; i++) {
        int rc = sqlite3_prepare_v3(db->handle, o->statements[i], -1, SQLITE_PREPARE_PERSISTENT,
                                    &db->prepared[i], NULL);
        if (rc != SQLITE_OK)
            return db_fail(db, rc, "use the tables of", err);
    }
    return KILN_OK;
}

enum kiln_code db_open(const struct db_options *options, struct db **ret_db, struct kiln_err *err)
{
    KILN_AUTO(db) struct db *db = calloc(1, sizeof(*db));
    if (db)
        db->path = strdup(options->path);
    if (!db || !db->path)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open '%s': out of memory", options->path);
    db->read_only = options->read_only;

    enum kiln_code rc = open_file(db, options, err);
    if (!rc)
        rc = configure(db, options, err);
    if (!rc && options->schema)
        rc = use_wal(db, err);
    if (!rc && options->schema)
        rc = db_migrate(db, options->schema, err);
    if (!rc && options->read_only)
        rc = db_exec(db, "pragma query_only = on", "set up", err);
    if (!rc)
        rc = prepare(db, options, err);
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
    sqlite3_close(db->handle);
    free(db->path);
    free(db);
}

uint64_t db_changes(const struct db *db) { return (uint64_t)sqlite3_changes64(db->handle); }

uint64_t db_last_id(const struct db *db) { return (uint64_t)sqlite3_last_insert_rowid(db->handle); }

void db_forget_pages(struct db *db) { sqlite3_db_release_memory(db->handle); }

enum kiln_code db_shrink(struct db *db, struct kiln_err *err)
{
    char sql[64];
    snprintf(sql, sizeof(sql), "pragma incremental_vacuum(%d)", SHRINK_PAGES);
    int64_t left = 0;
    enum kiln_code rc = db_number(db, "pragma freelist_count", &left, err);
    for (int64_t before = INT64_MAX; !rc && left > 0 && left < before;) {
        before = left;
        rc = db_exec(db, sql, "shrink", err);
        if (!rc)
            rc = db_number(db, "pragma freelist_count", &left, err);
    }
    if (!rc) /* truncates the log; a reader in the way only means that it is done later */
        sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    return rc;
}

enum kiln_code transaction_begin(struct transaction *t, struct db *db, struct kiln_err *err)
{
    enum kiln_code rc = db_exec(db, "begin immediate", "lock", err);
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

void transaction_done(struct transaction *t)
{
    /* A failure may already have rolled back. */
    if (t->db && !sqlite3_get_autocommit(t->db->handle))
        sqlite3_exec(t->db->handle, "rollback", NULL, NULL, NULL);
    t->db = NULL;
}
