/* SPDX-License-Identifier: MIT */
#include "tests/support/child.h"
#include "tests/support/repeats.h"
#include "tests/support/test.h"

#include "common/base/fs.h"
#include "engine/db/snapshot.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SNAPSHOTS 30u
#define COMMITS 60u
/* rows per transaction; a transaction changes more pages than the log may have (7) */
#define ITEMS 2000

struct fixture {
    const char *directory;
    char path[96], copy[96];
    pid_t writer;
    int alive; /* read end of a pipe: one byte for each commit of the writer */
    struct kiln_err err;
};

SET_UP(setup)
{
    f->directory = test_directory();
    snprintf(f->path, sizeof(f->path), "%s/live.db", f->directory);
    snprintf(f->copy, sizeof(f->copy), "%s/copy.db", f->directory);
    f->alive = -1;
}

static void stop_writer(struct fixture *f)
{
    if (!f->writer)
        return;
    kill(f->writer, SIGKILL);
    assert_true(WIFSIGNALED(await_child(f->writer)));
    close(f->alive);
    f->writer = 0;
}

TEAR_DOWN(teardown) { stop_writer(f); }

FIXTURE(snapshot, setup, teardown);

static int do_sql(sqlite3 *db, const char *sql) { return sqlite3_exec(db, sql, NULL, NULL, NULL); }

/* Runs transactions until the process is killed, and writes a byte to |reported| after each. A
 * transaction gives all items the same new number, and adds and deletes some. */
static void write_for_ever(const struct fixture *f, const char *mode, int reported)
{
    sqlite3 *db = NULL;
    char sql[512];
    if (sqlite3_open(f->path, &db) != SQLITE_OK)
        _exit(1);
    sqlite3_busy_timeout(db, 10000);
    snprintf(sql, sizeof(sql),
             "pragma journal_mode = %s; pragma synchronous = off; pragma wal_autocheckpoint = 7; "
             "pragma cache_size = 20;"
             "create table item (id integer primary key, number int, filling blob)",
             mode);
    if (do_sql(db, sql) != SQLITE_OK)
        _exit(2);
    for (unsigned number = 1;; number++) {
        snprintf(sql, sizeof(sql),
                 "begin immediate; delete from item where id %% 5 = %u;"
                 "update item set number = %u;"
                 "with recursive n (i) as (select 1 union all select i + 1 from n limit %d)"
                 "insert or ignore into item select i, %u, randomblob(100 + i * 7 %% 900) from n;"
                 "commit",
                 number % 5, number, ITEMS, number);
        if (do_sql(db, sql) != SQLITE_OK || write(reported, "", 1) != 1)
            _exit(3);
    }
}

static void start_writer(struct fixture *f, const char *mode)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    f->writer = fork();
    assert_true(f->writer >= 0);
    if (f->writer == 0)
        write_for_ever(f, mode, ends[1]);
    close(ends[1]);
    f->alive = ends[0];
    await_progress(f->alive, 1);
    assert_int_equal(fcntl(f->alive, F_SETFL, O_NONBLOCK), 0);
}

/* Empties the pipe, so that it never blocks the writer. Returns the number of commits since the
 * last call. */
static size_t drain(struct fixture *f)
{
    char bytes[4096];
    size_t all = 0;
    for (ssize_t got; (got = read(f->alive, bytes, sizeof(bytes))) > 0;)
        all += (size_t)got;
    return all;
}

static int number_of(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int number = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return number;
}

static void snapshots_while_writing(struct fixture *f, const char *mode)
{
    const unsigned snapshots = test_repeats(SNAPSHOTS), least_commits = test_repeats(COMMITS);
    int latest = 0;
    unsigned taken = 0;
    size_t commits = 0;
    start_writer(f, mode);
    while (taken < snapshots || commits < least_commits) {
        commits += drain(f);
        enum kiln_code rc = db_snapshot(f->path, f->copy, true, &f->err);
        if (rc == KILN_BUSY)
            continue;
        struct log_state log = { 0 };
        must(rc, f->err);
        must(db_snapshot_save(f->copy, &log, &f->err), f->err);
        assert_false(log.damaged); /* a transaction in progress is not damage */
        assert_int_equal(number_of(f->copy, "select count(*) from pragma_integrity_check where "
                                            "integrity_check <> 'ok'"),
                         0);
        assert_int_equal(number_of(f->copy, "select count(*) from item"), ITEMS);
        assert_int_equal(number_of(f->copy, "select count(distinct number) from item"), 1);
        int number = number_of(f->copy, "select number from item");
        assert_true(number >= latest);
        latest = number;
        taken++;
        db_snapshot_remove(f->copy);
    }
    print_message("%s: %u snapshots during %zu commits\n", mode, taken, commits);
    stop_writer(f);
}

TEST(snapshot, a_snapshot_is_consistent_while_a_writer_checkpoints_and_restarts_its_log)
{
    snapshots_while_writing(*state, "wal");
}

TEST(snapshot, a_snapshot_is_consistent_while_a_writer_uses_a_journal)
{
    snapshots_while_writing(*state, "delete");
}

/* offset of a byte in the log's first page, behind the headers of the log and of the frame */
#define IN_FIRST_PAGE (32 + 24 + 100)

/* Imitates a writer in the middle of a transaction: a byte of the log is wrong. When the snapshot
 * sleeps, the test corrects the byte, which completes the transaction. If |goes_on|, the test never
 * stops: every sleep changes the byte again. */
static struct writer_in_the_midst {
    sqlite3_vfs *was, vfs;
    char log[112];
    char byte;
    bool goes_on;
} midst;

static void change_log(const char *log, char by)
{
    char byte = 0;
    int fd = open(log, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &byte, 1, IN_FIRST_PAGE), 1);
    byte ^= by;
    assert_int_equal(pwrite(fd, &byte, 1, IN_FIRST_PAGE), 1);
    close(fd);
}

static int ends_while_others_sleep(sqlite3_vfs *vfs, int microseconds)
{
    (void)vfs;
    if (midst.byte)
        change_log(midst.log, midst.byte);
    if (!midst.goes_on)
        midst.byte = 0;
    return microseconds;
}

/* Makes a log of two transactions, with a wrong byte in the first one. */
static sqlite3 *start_in_the_midst(struct fixture *f, bool goes_on)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(do_sql(db, "pragma journal_mode = wal; create table item (id);"
                                "insert into item values (1)"),
                     SQLITE_OK);
    midst = (struct writer_in_the_midst){ .was = sqlite3_vfs_find(NULL), .byte = 1 };
    midst.goes_on = goes_on;
    midst.vfs = *midst.was;
    midst.vfs.zName = "sleeps-aside";
    midst.vfs.xSleep = ends_while_others_sleep;
    snprintf(midst.log, sizeof(midst.log), "%s-wal", f->path);
    change_log(midst.log, midst.byte);
    assert_int_equal(sqlite3_vfs_register(&midst.vfs, 1), SQLITE_OK);
    return db;
}

static void stop_in_the_midst(sqlite3 *db)
{
    sqlite3_vfs_unregister(&midst.vfs);
    sqlite3_vfs_register(midst.was, 1);
    sqlite3_close(db);
}

TEST_F(snapshot, a_log_that_is_written_to_does_not_count_as_damaged)
{
    struct log_state log = { 0 };
    sqlite3 *db = start_in_the_midst(f, false);
    enum kiln_code rc = db_snapshot(f->path, f->copy, true, &f->err);
    stop_in_the_midst(db);
    must(rc, f->err);
    must(db_snapshot_save(f->copy, &log, &f->err), f->err);
    assert_false(log.damaged);
    assert_int_equal(number_of(f->copy, "select count(*) from item"), 1);
}

TEST_F(snapshot, a_snapshot_of_a_log_that_never_settles_is_busy)
{
    sqlite3 *db = start_in_the_midst(f, true);
    midst.byte = 3;
    enum kiln_code rc = db_snapshot(f->path, f->copy, true, &f->err);
    stop_in_the_midst(db);
    assert_int_equal(rc, KILN_BUSY);
    assert_int_equal(access(f->copy, F_OK), -1);
}

TEST_F(snapshot, a_log_that_stays_wrong_is_damaged)
{
    struct log_state log = { 0 };
    sqlite3 *db = start_in_the_midst(f, false);
    midst.byte = 0;
    enum kiln_code rc = db_snapshot(f->path, f->copy, true, &f->err);
    stop_in_the_midst(db);
    must(rc, f->err);
    must(db_snapshot_save(f->copy, &log, &f->err), f->err);
    assert_true(log.damaged);
}

static bool is_locked(void *path)
{
    sqlite3 *db = NULL;
    return sqlite3_open(path, &db) == SQLITE_OK && do_sql(db, "begin exclusive") == SQLITE_BUSY;
}

/* A process loses its POSIX locks of a file when it closes any descriptor of the file. */
TEST_F(snapshot, a_snapshot_drops_no_lock_of_this_process)
{
    sqlite3 *reader = NULL;
    assert_int_equal(sqlite3_open(f->path, &reader), SQLITE_OK);
    assert_int_equal(do_sql(reader, "create table item (id); begin; select * from item"),
                     SQLITE_OK);

    must(db_snapshot(f->path, f->copy, true, &f->err), f->err);

    assert_true(run_in_child(is_locked, f->path));
    sqlite3_close(reader);
}

TEST_F(snapshot, a_snapshot_follows_a_link_to_the_file_and_its_log)
{
    sqlite3 *db = NULL;
    char link[96];
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(do_sql(db, "pragma journal_mode = wal; create table item (id);"
                                "insert into item values (1), (2)"),
                     SQLITE_OK);
    snprintf(link, sizeof(link), "%s/link.db", f->directory);
    assert_int_equal(symlink(f->path, link), 0);

    must(db_snapshot(link, f->copy, true, &f->err), f->err);
    must(db_snapshot_merge(f->copy, &f->err), f->err);

    assert_int_equal(number_of(f->copy, "select count(*) from item"), 2);
    sqlite3_close(db);
}

TEST_F(snapshot, a_log_that_is_not_a_regular_file_is_refused)
{
    sqlite3 *db = NULL;
    char log[112];
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(do_sql(db, "create table item (id)"), SQLITE_OK);
    sqlite3_close(db);
    snprintf(log, sizeof(log), "%s-wal", f->path);
    assert_int_equal(mkfifo(log, 0600), 0);
    assert_int_equal(db_snapshot(f->path, f->copy, true, &f->err), KILN_CORRUPT);
    assert_says(f->err.text, "live.db-wal'");
    unlink(log);
    assert_int_equal(symlink("/etc/passwd", log), 0);
    assert_int_equal(db_snapshot(f->path, f->copy, true, &f->err), KILN_IO);
    assert_int_equal(access(f->copy, F_OK), -1);
}
