/* SPDX-License-Identifier: MIT */
#include "engine/db/new_file.h"
#include "engine/db/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* The file needs no journal: nobody reads it before it is complete. */
static const char tune[] = "pragma page_size = 4096; pragma encoding = 'UTF-8';"
                           "pragma journal_mode = memory; pragma synchronous = off;"
                           "pragma auto_vacuum = none; begin immediate";

static enum kiln_code create_empty_file(const char *path, struct kiln_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot create '%s'", path);
    close(fd);
    return KILN_OK;
}

enum kiln_code db_new_file(const struct db_new_file_options *options, struct db **ret_db,
                           struct kiln_err *err)
{
    struct db *db = NULL;
    struct db_options plain = { .path = options->path,
                                .value_max = options->value_max,
                                .cache_kib = 4096 };
    enum kiln_code rc = create_empty_file(options->path, err);
    if (rc)
        return rc;
    rc = db_open(&plain, &db, err);
    if (!rc)
        rc = db_exec(db, tune, "set up", err);
    if (!rc)
        rc = db_exec(db, options->setup, "set up", err);
    if (!rc)
        rc = db_keep_statements(db, options->statements, options->statement_count, err);
    if (!rc)
        *ret_db = db;
    else if (db)
        db_new_file_abandon(db);
    else
        unlink(options->path);
    return rc;
}

static enum kiln_code sync_path(const char *path, int flags, struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = open(path, flags | O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        return kiln_fail_errno(err, errno, "cannot sync '%s' to disk", path);
    return KILN_OK;
}

enum kiln_code db_sync_file(const char *path, struct kiln_err *err)
{
    KILN_AUTO(mem) char *directory = strdup(path);
    if (!directory)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot sync '%s' to disk: out of memory", path);
    enum kiln_code rc = sync_path(path, 0, err);
    char *slash = strrchr(directory, '/');
    if (slash)
        slash[slash == directory ? 1 : 0] = '\0';
    return rc ? rc : sync_path(slash ? directory : ".", O_DIRECTORY, err);
}

enum kiln_code db_new_file_finish(struct db *db, struct kiln_err *err)
{
    enum kiln_code rc = db_exec(db, "commit", "write to", err);
    if (rc)
        db_new_file_abandon(db);
    else
        db_destroy(db);
    return rc;
}

void db_new_file_abandon(struct db *db)
{
    if (!db)
        return;
    unlink(db->path);
    db_destroy(db);
}
