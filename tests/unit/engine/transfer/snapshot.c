/* SPDX-License-Identifier: MIT */
#include "engine/transfer/snapshot.h"

#include "common/base/cleanup.h"
#include "engine/miopen/kern_db.h"
#include "tests/unit/engine/transfer/package_fixture.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CACHE "gfx90a68.ukdb"

struct fixture {
    struct package_fixture p;
    sqlite3 *writer; /* owned; stands for another program that has the cache open */
    struct snapshot taken;
};

SET_UP(set_up)
{
    *f = (struct fixture){ .taken.fd = -1 };
    package_fixture_open(&f->p);
}

TEAR_DOWN(tear_down)
{
    sqlite3_close(f->writer);
    fd_auto(&f->taken.fd);
    assert_is_empty(f->p.staging);
}

FIXTURE(snapshot, set_up, tear_down);

static void say(struct fixture *f, const char *sql)
{
    if (sqlite3_exec(f->writer, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(f->writer));
}

static void open_live(struct fixture *f)
{
    package_write(&f->p, CACHE, 3, 2000);
    assert_int_equal(sqlite3_open(package_path(&f->p, CACHE), &f->writer), SQLITE_OK);
    say(f, "pragma journal_mode = wal");
    say(f, "pragma wal_autocheckpoint = 0");
    say(f, "insert into kern_db (kernel_name, kernel_args, kernel_blob, kernel_hash, "
           "uncompressed_size) select 'new.o', kernel_args, kernel_blob, kernel_hash, "
           "uncompressed_size from kern_db limit 1");
}

static enum kiln_code take(struct fixture *f, const char *name)
{
    return snapshot_take(package_path(&f->p, name), f->p.staging, false, &f->taken, &f->p.err);
}

static enum kiln_code salvage(struct fixture *f, const char *name)
{
    return snapshot_take(package_path(&f->p, name), f->p.staging, true, &f->taken, &f->p.err);
}

static uint64_t rows_of(struct fixture *f, int fd)
{
    char copy[FIXTURE_PATH_MAX], chunk[4096];
    snprintf(copy, sizeof(copy), "%s/opened.kdb", f->p.directory);
    int to = open(copy, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(to >= 0);
    ssize_t got;
    for (off_t at = 0; (got = pread(fd, chunk, sizeof(chunk), at)) > 0; at += got)
        assert_int_equal(write(to, chunk, (size_t)got), got);
    close(to);
    uint64_t rows = 0;
    KILN_AUTO(kern_db) struct kern_db *db = NULL;
    must(kern_db_open(copy, &db, &f->p.err), f->p.err);
    must(kern_db_count(db, &rows, &f->p.err), f->p.err);
    return rows;
}

TEST_F(snapshot, a_cache_that_is_in_use_comes_with_its_log_merged)
{
    open_live(f);

    must(take(f, CACHE), f->p.err);

    assert_true(f->taken.merged);
    assert_string_equal(f->taken.name, CACHE);
    assert_string_equal(f->taken.note, "");
    assert_int_equal(rows_of(f, f->taken.fd), 4);
}

TEST_F(snapshot, a_snapshot_does_not_change_with_its_file)
{
    open_live(f);
    must(take(f, CACHE), f->p.err);

    say(f, "delete from kern_db");
    say(f, "pragma wal_checkpoint(truncate)");

    assert_int_equal(rows_of(f, f->taken.fd), 4);
}

static ino_t inode_at(const char *path)
{
    struct stat seen;
    assert_int_equal(stat(path, &seen), 0);
    return seen.st_ino;
}

static void expect_the_file_itself(struct fixture *f, const char *name)
{
    struct stat seen;
    assert_int_equal(fstat(f->taken.fd, &seen), 0);
    assert_int_equal(seen.st_ino, inode_at(package_path(&f->p, name)));
    assert_false(f->taken.merged);
}

TEST_F(snapshot, a_package_that_nobody_writes_comes_as_it_is)
{
    package_write(&f->p, PACKAGE, 3, 2000);

    must(take(f, PACKAGE), f->p.err);

    expect_the_file_itself(f, PACKAGE);
    assert_int_equal(fcntl(f->taken.fd, F_GETFL) & O_ACCMODE, O_RDONLY);
}

TEST_F(snapshot, a_packed_package_comes_as_it_is)
{
    package_write(&f->p, PACKAGE, 3, 2000);
    package_pack(&f->p, PACKAGE, PACKAGE ".bz2");

    must(take(f, PACKAGE ".bz2"), f->p.err);

    expect_the_file_itself(f, PACKAGE ".bz2");
}

static void damage(struct fixture *f, const char *suffix, size_t size, off_t at)
{
    static const char garbage[100000] = { 'x' };
    char path[FIXTURE_PATH_MAX];
    snprintf(path, sizeof(path), "%s%s", package_path(&f->p, CACHE), suffix);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, garbage, size, at), size);
    close(fd);
}

TEST_F(snapshot, a_damaged_cache_is_refused)
{
    open_live(f);
    damage(f, "", 4000, 96);
    damage(f, "-wal", 100000, 0);

    assert_int_equal(take(f, CACHE), KILN_CORRUPT);

    assert_says(f->p.err.text, "'" CACHE "' is damaged");
    assert_says(f->p.err.text, "nothing was imported");
}

TEST_F(snapshot, damaged_tuning_data_comes_as_it_is_with_a_note)
{
    open_live(f);
    damage(f, "", 4000, 96);
    damage(f, "-wal", 100000, 0);

    must(salvage(f, CACHE), f->p.err);

    expect_the_file_itself(f, CACHE);
    assert_says(f->taken.note, "damaged");
    assert_says(f->taken.note, "write-ahead log");
}

/* SQLite's recovery ends at the damaged page. */
TEST_F(snapshot, a_cache_comes_without_what_follows_a_damaged_page_of_its_log)
{
    open_live(f);
    damage(f, "-wal", 4000, 0);

    must(take(f, CACHE), f->p.err);

    assert_true(f->taken.merged);
    assert_string_equal(f->taken.note, "");
    assert_int_equal(rows_of(f, f->taken.fd), 3);
}

TEST_F(snapshot, tuning_data_whose_log_is_damaged_comes_with_the_rest_of_it)
{
    open_live(f);
    damage(f, "-wal", 4000, 0);

    must(salvage(f, CACHE), f->p.err);

    assert_true(f->taken.merged);
    assert_says(f->taken.note, "2 of");
}

TEST_F(snapshot, a_missing_cache_file_is_reported)
{
    assert_int_equal(take(f, CACHE), KILN_NOT_FOUND);

    assert_says(f->p.err.text, CACHE);
}

TEST_F(snapshot, a_snapshot_of_a_directory_or_pipe_is_refused)
{
    assert_int_equal(mkfifo(package_path(&f->p, CACHE), 0600), 0);

    assert_int_equal(take(f, CACHE), KILN_INVALID);

    assert_says(f->p.err.text, "regular file");
}

TEST_F(snapshot, an_unusable_directory_for_a_snapshot_is_reported)
{
    open_live(f);

    enum kiln_code rc = snapshot_take(package_path(&f->p, CACHE), "/nonexistent/directory", false,
                                      &f->taken, &f->p.err);

    assert_int_not_equal(rc, KILN_OK);
    assert_says(f->p.err.text, "/nonexistent/directory");
}
