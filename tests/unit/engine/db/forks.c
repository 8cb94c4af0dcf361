/* SPDX-License-Identifier: MIT */
/* The order in which fork takes SQLite's own locks is that in which SQLite does: its locks are
 * watched while it does what takes them. */
#include "tests/support/test.h"

#include "common/fs.h"
#include "engine/db/forks.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIRST SQLITE_MUTEX_STATIC_MAIN
#define IDS (SQLITE_MUTEX_STATIC_VFS3 + 1)
#define ENTERED_MOST 64

static sqlite3_mutex_methods sqlites;    /* what its own locks are */
static sqlite3_mutex *locks[IDS];        /* the static ones */
static bool held[IDS], nested[IDS][IDS]; /* nested[a][b]: |b| was taken while |a| was held */
static int entered[ENTERED_MOST];        /* since the last clear */
static size_t entered_count;

static int id_of(const sqlite3_mutex *lock)
{
    for (int id = FIRST; id < IDS; id++) {
        if (locks[id] == lock)
            return id;
    }
    return 0;
}

static void note(sqlite3_mutex *lock)
{
    int id = id_of(lock);
    if (!id)
        return;
    for (int other = FIRST; other < IDS; other++)
        nested[other][id] |= held[other];
    held[id] = true;
    if (entered_count < ENTERED_MOST)
        entered[entered_count++] = id;
}

static void enter(sqlite3_mutex *lock)
{
    sqlites.xMutexEnter(lock);
    note(lock);
}

static int try(sqlite3_mutex *lock)
{
    int rc = sqlites.xMutexTry(lock);
    if (rc == SQLITE_OK)
        note(lock);
    return rc;
}

static void leave(sqlite3_mutex *lock)
{
    held[id_of(lock)] = false;
    sqlites.xMutexLeave(lock);
}

static int setup(void **state)
{
    (void)state;
    assert_int_equal(sqlite3_initialize(), SQLITE_OK); /* which chooses its locks */
    assert_int_equal(sqlite3_shutdown(), SQLITE_OK);
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMUTEX, &sqlites), SQLITE_OK);
    sqlite3_mutex_methods watched = sqlites;
    watched.xMutexEnter = enter;
    watched.xMutexTry = try;
    watched.xMutexLeave = leave;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MUTEX, &watched), SQLITE_OK);
    for (int id = FIRST; id < IDS; id++)
        locks[id] = sqlites.xMutexAlloc(id);
    db_watch_forks();
    return 0;
}

TEST_PROGRAM(setup, NULL)

/* ---- what takes them ---- */

static sqlite3 *open_db(const char *folder, const char *rest)
{
    char uri[320];
    sqlite3 *db = NULL;
    snprintf(uri, sizeof(uri), "file:%s%s", folder, rest);
    assert_int_equal(sqlite3_open_v2(uri, &db,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI,
                                     NULL),
                     SQLITE_OK);
    return db;
}

static void run(sqlite3 *db, const char *sql)
{
    char *why = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
}

/* Files, logs, temporary files, what is shared in memory; each time with a random number that is
 * the first again. */
static void use_sqlite(const char *folder)
{
    static const char *const uris[] = { "/a.db", "/b.db?cache=shared", "/b.db?cache=shared",
                                        "?vfs=memdb", "?mode=memory&cache=shared" };
    static const char sql[] =
        "PRAGMA journal_mode = wal; PRAGMA temp_store = file; PRAGMA cache_size = 10;"
        "CREATE TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY, b BLOB);"
        "CREATE TEMP TABLE u AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
        "LIMIT 300) SELECT i, randomblob(1000) AS r FROM n;"
        "INSERT INTO t (b) SELECT r FROM u ORDER BY r; DELETE FROM t; VACUUM;";
    sqlite3 *opened[sizeof(uris) / sizeof(uris[0])];
    for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
        opened[i] = open_db(folder, uris[i]);
        sqlite3_randomness(0, NULL);
        run(opened[i], sql);
    }
    sqlite3_release_memory(1 << 20);
    for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++)
        assert_int_equal(sqlite3_close(opened[i]), SQLITE_OK);
}

/* ---- fork ---- */

/* What it takes, in order. */
static size_t fork_once(int ret_order[IDS])
{
    size_t count = 0;
    entered_count = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    int status = 1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    for (size_t i = 0; i < entered_count; i++) {
        assert_true(count < IDS);
        ret_order[count++] = entered[i];
    }
    return count;
}

static size_t place_of(const int *order, size_t count, int id)
{
    for (size_t i = 0; i < count; i++) {
        if (order[i] == id)
            return i;
    }
    fail_msg("fork does not wait for lock %d, which SQLite takes", id);
    return 0;
}

TEST(plain, fork_takes_the_locks_in_sqlites_order)
{
    char folder[] = "/tmp/kiln-forks-XXXXXX";
    bool seen[IDS][IDS];
    int order[IDS];
    unsigned pairs = 0;
    assert_non_null(mkdtemp(folder));
    use_sqlite(folder);
    fs_remove_tree(AT_FDCWD, folder);
    memcpy(seen, nested, sizeof(seen)); /* without what fork does */
    size_t count = fork_once(order);
    for (int a = FIRST; a < IDS; a++) {
        for (int b = FIRST; b < IDS; b++) {
            pairs += seen[a][b];
            if (seen[a][b] && place_of(order, count, a) >= place_of(order, count, b))
                fail_msg("SQLite takes lock %d while it holds %d, fork the other way round", b, a);
        }
    }
    assert_true(pairs > 0);
}
