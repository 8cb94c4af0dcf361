/* SPDX-License-Identifier: MIT */
#include "engine/tuning/tuning_db_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define LOCK_NAME "tuning.lock"
#define CACHE_KIB 2048u

extern const unsigned char schema_tuning_0001[];
extern const unsigned long schema_tuning_0001_size;
extern const unsigned char schema_tuning_0002[];
extern const unsigned long schema_tuning_0002_size;
extern const unsigned char schema_tuning_0003[];
extern const unsigned long schema_tuning_0003_size;
extern const unsigned char schema_tuning_0004[];
extern const unsigned long schema_tuning_0004_size;

static const struct db_migration migrations[] = {
    { schema_tuning_0001, &schema_tuning_0001_size },
    { schema_tuning_0002, &schema_tuning_0002_size },
    { schema_tuning_0003, &schema_tuning_0003_size },
    { schema_tuning_0004, &schema_tuning_0004_size },
};

static const struct db_schema schema = {
    .name = "tuning",
    .application_id = 0x4b4c5431, /* "KLT1" */
    .migrations = migrations,
    .count = sizeof(migrations) / sizeof(migrations[0]),
};

static const char *const statements[TUNING_STATEMENT_COUNT] = {
#define TUNING_STATEMENT(name, text) [TUNING_##name] = text,
#include "engine/tuning/tuning_statements.def"
#undef TUNING_STATEMENT
};

const char *tuning_tier_name(enum tuning_tier tier)
{
    switch (tier) {
    case TUNING_TIER_SYSTEM: return "system";
    case TUNING_TIER_HOST: return "host";
    case TUNING_TIER_USER: return "user";
    case TUNING_TIER_NONE: break;
    }
    return "none";
}

static char *path_of(const struct tuning_db *db, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", db->directory, name) < 0 ? NULL : path;
}

/* Creates the file with mode 0600, because SQLite would let every user read it. */
static enum kiln_code make_private(const struct tuning_db *db, const char *name,
                                   struct kiln_err *err)
{
    struct stat seen;
    enum kiln_code rc = db_directory_check_file(&db->home, name, &seen, err);
    if (rc != KILN_NOT_FOUND)
        return rc;
    KILN_AUTO(fd)
    int fd = openat(db->home.fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 ? KILN_OK
                   : kiln_fail_errno(err, errno, "cannot create '%s/%s'", db->directory, name);
}

enum kiln_code tuning_file_open(const struct tuning_db *db, const char *name, bool full_sync,
                                struct db **ret_db, struct kiln_err *err)
{
    KILN_AUTO(mem) char *path = path_of(db, name);
    if (!path)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open '%s': out of memory", db->path);
    struct db_options options = {
        .path = path,
        .schema = &schema,
        .statements = statements,
        .statement_count = TUNING_STATEMENT_COUNT,
        .value_max = TUNING_CONTENT_MAX + (1u << 20),
        .cache_kib = CACHE_KIB,
        .full_sync = full_sync,
    };
    enum kiln_code rc = make_private(db, name, err);
    return rc ? rc : db_open(&options, ret_db, err);
}

static struct tuning_db *create_db(const struct tuning_db_options *options)
{
    KILN_AUTO(tuning_db) struct tuning_db *db = calloc(1, sizeof(*db));
    if (!db)
        return NULL;
    db->home.fd = db->home.lock = -1;
    db->records_per_uid = options->records_per_uid;
    db->bytes_per_uid = options->bytes_per_uid;
    db->directory = strdup(options->directory);
    db->rows = calloc(TUNING_ENTRIES_MAX, sizeof(*db->rows));
    if (db->directory)
        db->path = path_of(db, TUNING_FILE);
    return db->directory && db->path && db->rows ? KILN_TAKE(db) : NULL;
}

void tuning_db_set_limits(struct tuning_db *db, uint64_t records_per_uid, uint64_t bytes_per_uid)
{
    db->records_per_uid = records_per_uid;
    db->bytes_per_uid = bytes_per_uid;
}

static enum kiln_code open_directory(struct tuning_db *db, bool allow_network_fs,
                                     struct kiln_err *err)
{
    struct db_directory_options options = { .path = db->directory,
                                            .what = "state directory",
                                            .setting = "--state-dir",
                                            .variable = "XDG_STATE_HOME",
                                            .lock = LOCK_NAME,
                                            .file = "the database",
                                            .allow_network_fs = allow_network_fs };
    return db_directory_open(&options, &db->home, err);
}

static enum kiln_code rename_to(const struct tuning_db *db, const char *from, struct kiln_err *err)
{
    if (renameat(db->home.fd, from, db->home.fd, TUNING_FILE) != 0)
        return kiln_fail_errno(err, errno, "cannot move '%s/%s' into place", db->directory, from);
    return db_directory_sync(&db->home, err);
}

/* Creates the first tuning.db under another name, and renames the file when it is complete. So if
 * tuning.db is incomplete, it was damaged later. */
static enum kiln_code make_first(const struct tuning_db *db, struct kiln_err *err)
{
    struct db *file = NULL;
    db_directory_remove(&db->home, TUNING_FILE_NEW);
    enum kiln_code rc = tuning_file_open(db, TUNING_FILE_NEW, false, &file, err);
    if (!rc)
        rc = tuning_file_finish(db, TUNING_FILE_NEW, file, err);
    if (rc)
        db_directory_remove(&db->home, TUNING_FILE_NEW);
    return rc ? rc : rename_to(db, TUNING_FILE_NEW, err);
}

/* Creates a tuning.db at the first start. If kilnd was killed between the renames of a salvage
 * (swap_files), uses the salvaged file instead. Moves a write-ahead log without a database away,
 * because SQLite would apply that log to the new file. */
static enum kiln_code put_in_place(struct tuning_db *db, struct tuning_salvage *salvage,
                                   struct kiln_err *err)
{
    struct stat seen;
    char aside[96];
    bool left_over = fstatat(db->home.fd, TUNING_FILE "-wal", &seen, AT_SYMLINK_NOFOLLOW) == 0;
    enum kiln_code rc = KILN_OK;
    if (left_over)
        rc = db_directory_move_aside(&db->home, TUNING_FILE, aside, err);
    enum kiln_code found =
        rc ? rc : db_directory_check_file(&db->home, TUNING_FILE_SALVAGED, &seen, err);
    if (found == KILN_OK)
        snprintf(salvage->notice, sizeof(salvage->notice),
                 "the previous kilnd ended while it replaced the damaged tuning database '%.400s': "
                 "kilnd uses the recovered copy",
                 db->path);
    else if (found == KILN_NOT_FOUND && left_over)
        snprintf(salvage->notice, sizeof(salvage->notice),
                 "the tuning database '%.300s' was missing: a new one was created, and the rest of "
                 "its log is in '%.95s-wal'",
                 db->path, aside);
    if (found == KILN_NOT_FOUND)
        return make_first(db, err);
    return found ? found : rename_to(db, TUNING_FILE_SALVAGED, err);
}

static enum kiln_code open_file(struct tuning_db *db, struct kiln_err *err)
{
    struct stat seen;
    enum kiln_code rc = tuning_file_look(db, err);
    if (!rc)
        rc = tuning_file_open(db, TUNING_FILE, true, &db->db, err);
    if (!rc)
        rc = tuning_file_check(db->db, db->rows, err);
    if (!rc)
        rc = db_directory_check_file(&db->home, TUNING_FILE, &seen, err);
    if (rc) {
        db_destroy(db->db);
        db->db = NULL;
        return rc;
    }
    db->device = seen.st_dev;
    db->inode = seen.st_ino;
    return KILN_OK;
}

static void tidy_directory(const struct tuning_db *db)
{
    db_directory_remove(&db->home, TUNING_FILE_NEW);
    db_directory_remove(&db->home, TUNING_FILE_SALVAGED);
    db_directory_remove(&db->home, TUNING_FILE_WHOLE);
}

static enum kiln_code open_mending(struct tuning_db *db, struct tuning_salvage *salvage,
                                   struct kiln_err *err)
{
    struct stat seen;
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = db_directory_check_file(&db->home, TUNING_FILE, &seen, err);
    if (rc == KILN_NOT_FOUND)
        rc = put_in_place(db, salvage, err);
    if (rc)
        return rc;
    tidy_directory(db);
    rc = open_file(db, &why);
    if (rc == KILN_CORRUPT) /* a failed read alone does not mean that the file is damaged */
        rc = open_file(db, &why);
    if (rc != KILN_CORRUPT) {
        *err = rc ? why : *err;
        return rc;
    }
    rc = tuning_salvage(db, why.text, salvage, err);
    return rc ? rc : open_file(db, err);
}

enum kiln_code tuning_db_open(const struct tuning_db_options *options, struct tuning_db **ret_db,
                              struct tuning_salvage *ret_salvage, struct kiln_err *err)
{
    struct tuning_salvage salvage = { 0 };
    KILN_AUTO(tuning_db) struct tuning_db *db = create_db(options);
    if (!db)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open the tuning database: out of memory");
    enum kiln_code rc = open_directory(db, options->allow_network_fs, err);
    if (!rc)
        rc = open_mending(db, &salvage, err);
    if (rc)
        return kiln_while(err, "opening the tuning database");
    *ret_salvage = salvage;
    *ret_db = KILN_TAKE(db);
    return KILN_OK;
}

void tuning_db_destroy(struct tuning_db *db)
{
    if (!db)
        return;
    db_destroy(db->db);
    db_directory_close(&db->home);
    free(db->usages);
    free(db->rows);
    free(db->path);
    free(db->directory);
    free(db);
}

uint64_t tuning_db_bytes(const struct tuning_db *db)
{
    static const char *const names[] = { TUNING_FILE, TUNING_FILE "-wal" };
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct stat seen;
        if (fstatat(db->home.fd, names[i], &seen, AT_SYMLINK_NOFOLLOW) == 0)
            bytes += (uint64_t)seen.st_size;
    }
    return bytes;
}
