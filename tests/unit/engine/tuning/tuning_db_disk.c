/* SPDX-License-Identifier: MIT */
#include "tuning_db_fixture.h"

#include "common/base/fs.h"
#include "tests/support/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void fails_and_works_again(struct fixture *f, int *which, int errnum, enum kiln_code code,
                                  const char *words)
{
    must(put(f, 1, 1), f->err);
    *which = errnum;
    enum kiln_code rc = put(f, 1, 2);
    *which = 0;
    assert_int_equal(rc, code);
    assert_says(f->err.text, words);
    assert_says(f->err.text, f->file);
    assert_int_equal(version_of(f, 1), 1);

    must(put(f, 2, 2), f->err);

    must(reopen(f), f->err);
    assert_string_equal(f->salvage.notice, "");
    assert_int_equal(version_of(f, 1), 1);
    assert_int_equal(version_of(f, 2), 2);
    must(put(f, 2, 0), f->err);
}

TEST(tuning_db, a_full_disk_refuses_a_change_and_the_next_one_works)
{
    fails_and_works_again(*state, &write_fails_with, ENOSPC, KILN_FULL, "disk space");
    fails_and_works_again(*state, &write_fails_with, EDQUOT, KILN_FULL, "disk space");
}

TEST(tuning_db, a_failing_disk_refuses_a_change_and_the_next_one_works)
{
    fails_and_works_again(*state, &write_fails_with, EIO, KILN_IO, "the disk");
    fails_and_works_again(*state, &sync_fails_with, EIO, KILN_IO, "the disk");
}

TEST(tuning_db, a_read_only_disk_refuses_a_change_and_the_next_one_works)
{
    fails_and_works_again(*state, &write_fails_with, EROFS, KILN_DENIED, "permissions");
}

/* How many more attempts to open tuning.db for writing fail. Opening for reading works. */
static unsigned refused_opens;

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's names are reserved
__attribute__((visibility("default"))) int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    unsigned mode = va_arg(rest, unsigned); /* meaningless unless the flags create a file */
    va_end(rest);
    bool refuses = refused_opens > 0 && (flags & O_ACCMODE) == O_RDWR && strstr(path, "/tuning.db");
    refused_opens -= refuses;
    if (!refuses)
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    errno = EROFS;
    return -1;
}

TEST_F(tuning_db, a_disk_that_is_writable_again_while_it_is_opened_is_written_to)
{
    must(put(f, 1, 1), f->err);
    refused_opens = 1;

    must(reopen(f), f->err);

    assert_int_equal(refused_opens, 0);
    must(put(f, 1, 2), f->err);
    assert_int_equal(version_of(f, 1), 2);
}

TEST_F(tuning_db, a_file_that_can_only_be_read_is_refused_and_said_to_be)
{
    must(put(f, 1, 1), f->err);
    refused_opens = 1000;

    assert_int_equal(reopen(f), KILN_DENIED);

    refused_opens = 0;
    assert_says(f->err.text, "permissions");
    assert_says(f->err.text, f->file);
    must(reopen(f), f->err);
    assert_int_equal(version_of(f, 1), 1);
    must(put(f, 1, 2), f->err);
}

TEST_F(tuning_db, a_change_stores_nothing_after_a_failure)
{
    KILN_AUTO(tuning_change) struct tuning_change *change = NULL;
    must(tuning_change_begin(f->db, &change, &f->err), f->err);
    enum kiln_code rc = KILN_OK;
    /* SQLite's cache holds changed pages of up to 2 MiB. Before the commit, SQLite writes further
     * ones to the disk. */
    write_fails_with = ENOSPC;
    for (unsigned i = 1; !rc && i < 2000; i++)
        rc = change_one(change, 29 * i, 1, &f->err);
    write_fails_with = 0;
    assert_int_equal(rc, KILN_FULL);

    assert_int_equal(change_one(change, 1, 1, &f->err), KILN_FULL);
    assert_int_equal(tuning_change_commit(change, &f->err), KILN_FULL);

    tuning_change_destroy(KILN_TAKE(change));
    assert_int_equal(count_found(f), 0);
    must(put(f, 1, 1), f->err);
    must(tuning_db_verify(f->db, &f->err), f->err);
}

TEST_F(tuning_db, a_removed_file_takes_no_more_changes)
{
    must(put(f, 1, 1), f->err);
    assert_int_equal(unlink(f->file), 0);

    assert_int_equal(put(f, 2, 1), KILN_UNAVAILABLE);

    assert_says(f->err.text, "replaced");
    must(reopen(f), f->err);
    assert_int_equal(count_found(f), 0);
}

TEST_F(tuning_db, a_log_without_its_file_is_moved_aside)
{
    char log[200];
    snprintf(log, sizeof(log), "%s-wal", f->file);
    close_db(f);
    assert_int_equal(unlink(f->file), 0);
    close(open(log, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));

    must(reopen(f), f->err);

    assert_says(f->salvage.notice, "was missing");
    assert_int_equal(files(f, "tuning.db.damaged-"), 1);
    must(put(f, 1, 1), f->err);
}

TEST(tuning_db, only_one_process_can_open_the_tuning_directory)
{
    struct fixture *f = *state;
    struct tuning_db *second = NULL;
    struct tuning_db_options options = { .directory = f->directory, .allow_network_fs = true };

    enum kiln_code rc = tuning_db_open(&options, &second, &f->salvage, &f->err);

    assert_int_equal(rc, KILN_BUSY);
    assert_null(second);
    char who[64];
    snprintf(who, sizeof(who), "a kilnd with pid %d uses the state directory", (int)getpid());
    assert_says(f->err.text, who);
    close_db(f);
    must(reopen(f), f->err);
}

TEST(tuning_db, a_directory_or_file_that_others_may_write_to_is_refused)
{
    struct fixture *f = *state;
    close_db(f);
    assert_int_equal(chmod(f->directory, 0770), 0);
    assert_int_equal(reopen(f), KILN_DENIED);
    assert_says(f->err.text, "chmod go-w");
    assert_says(f->err.text, "--state-dir");
    assert_int_equal(chmod(f->directory, 0700), 0);
    assert_int_equal(chmod(f->file, 0602), 0);

    assert_int_equal(reopen(f), KILN_DENIED);

    assert_says(f->err.text, f->file);
    assert_int_equal(chmod(f->file, 0600), 0);
    must(reopen(f), f->err);
}

TEST_F(tuning_db, a_directory_of_another_user_is_refused)
{
    NEED_ROOT();
    close_db(f);
    assert_int_equal(chown(f->directory, 12345, 12345), 0);

    assert_int_equal(reopen(f), KILN_DENIED);

    assert_says(f->err.text, "user 12345");
    assert_says(f->err.text, "chown 0");
}

TEST_F(tuning_db, a_link_in_place_of_the_file_is_refused)
{
    char other[200];
    close_db(f);
    snprintf(other, sizeof(other), "%s.other", f->file);
    assert_int_equal(rename(f->file, other), 0);
    assert_int_equal(symlink(other, f->file), 0);

    assert_int_equal(reopen(f), KILN_INVALID);

    assert_says(f->err.text, "regular file");
}

TEST(tuning_db, a_network_filesystem_is_refused)
{
    struct fixture *f = *state;
    struct tuning_db_options options = { .directory = f->directory };
    close_db(f);
    setenv("KILN_TEST_F_TYPE", "0x6969", 1);

    enum kiln_code rc = tuning_db_open(&options, &f->db, &f->salvage, &f->err);

    unsetenv("KILN_TEST_F_TYPE");
    assert_int_equal(rc, KILN_UNSUPPORTED);
    assert_says(f->err.text, "nfs");
    assert_says(f->err.text, "--state-dir");
    if (geteuid() != 0)
        assert_says(f->err.text, "XDG_STATE_HOME");
    must(tuning_db_open(&options, &f->db, &f->salvage, &f->err), f->err);
}

TEST_F(tuning_db, the_directory_and_the_file_are_private)
{
    struct stat seen;
    close_db(f);
    fs_remove_tree(AT_FDCWD, f->directory);

    must(reopen(f), f->err);

    assert_int_equal(stat(f->directory, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0700);
    assert_int_equal(stat(f->file, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0600);
}

static int64_t ask(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return number;
}

struct writing {
    struct fixture *f;
    atomic_bool stop;
    atomic_uint done; /* number of changes, each of two records */
};

static void *write_on(void *context)
{
    struct writing *w = context;
    struct kiln_err err = KILN_ERR_INIT;
    for (unsigned i = 1; !atomic_load(&w->stop); i++) {
        KILN_AUTO(tuning_change) struct tuning_change *change = NULL;
        if (tuning_change_begin(w->f->db, &change, &err) != KILN_OK ||
            change_one(change, 2 * i, 1, &err) != KILN_OK ||
            change_one(change, 2 * i + 1, 1, &err) != KILN_OK ||
            tuning_change_commit(change, &err) != KILN_OK)
            return strdup(err.text);
        atomic_fetch_add(&w->done, 1);
    }
    return NULL;
}

TEST_F(tuning_db, a_backup_is_one_consistent_state_while_a_writer_goes_on)
{
    struct writing w = { .f = f };
    pthread_t thread;
    char path[200];
    struct stat seen;
    void *failure = NULL;
    assert_int_equal(pthread_create(&thread, NULL, write_on, &w), 0);

    for (unsigned i = 0; i < 10; i++) {
        unsigned before = atomic_load(&w.done);
        WAIT_FOR(atomic_load(&w.done) >= before + 20);
        before = atomic_load(&w.done);
        snprintf(path, sizeof(path), "%s/copy-%u.db", f->directory, i);
        must(tuning_db_backup(f->db, path, &f->err), f->err);
        assert_true(ask(path, "select count(*) from record") >= 2 * (int64_t)before);
        assert_int_equal(ask(path, "select count(*) from record") % 2, 0);
        assert_int_equal(
            ask(path, "select count(*) from pragma_integrity_check where integrity_check = 'ok'"),
            1);
    }

    atomic_store(&w.stop, true);
    await_thread(thread, &failure);
    assert_null(failure);
    assert_int_equal(stat(path, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0600);
    assert_int_equal(files(f, "copy-9.db"), 1);
}

TEST_F(tuning_db, a_backup_put_in_place_is_the_store)
{
    char path[200];
    snprintf(path, sizeof(path), "%s.copy", f->file);
    for (unsigned i = 1; i < 40; i++)
        must(put(f, i, 1), f->err);
    must(tuning_db_backup(f->db, path, &f->err), f->err);
    must(put(f, 40, 1), f->err);
    close_db(f);
    assert_int_equal(rename(path, f->file), 0);

    must(reopen(f), f->err);

    assert_string_equal(f->salvage.notice, "");
    assert_int_equal(count_found(f), 39);
    must(put(f, 41, 1), f->err);
}

TEST_F(tuning_db, a_backup_replaces_no_file_and_leaves_none_when_it_fails)
{
    char path[200];
    must(put(f, 1, 1), f->err);
    assert_int_equal(tuning_db_backup(f->db, f->file, &f->err), KILN_INVALID);
    assert_says(f->err.text, "exists");
    snprintf(path, sizeof(path), "%s/absent/copy.db", f->directory);
    assert_int_not_equal(tuning_db_backup(f->db, path, &f->err), KILN_OK);
    assert_says(f->err.text, path);
    snprintf(path, sizeof(path), "%s/copy.db", f->directory);
    write_fails_with = ENOSPC;

    enum kiln_code rc = tuning_db_backup(f->db, path, &f->err);

    write_fails_with = 0;
    assert_int_equal(rc, KILN_FULL);
    assert_says(f->err.text, "backing up");
    assert_int_equal(files(f, "copy.db"), 0);
    must(tuning_db_backup(f->db, path, &f->err), f->err);
}

TEST_F(tuning_db, a_vacuum_frees_the_space_of_removed_records)
{
    uint64_t freed = 0;
    for (unsigned i = 1; i <= 40; i++)
        must(put(f, 29 * i, 1), f->err);
    for (unsigned i = 1; i <= 35; i++)
        must(put(f, 29 * i, 0), f->err);
    /* copies the records of the log into the file */
    must(tuning_db_checkpoint(f->db, &f->err), f->err);
    uint64_t before = tuning_db_bytes(f->db);

    must(tuning_db_vacuum(f->db, &freed, &f->err), f->err);

    assert_true(freed > 100000);
    assert_true(tuning_db_bytes(f->db) + freed <= before);
    assert_int_equal(count_found(f), 5);
    must(put(f, 1, 1), f->err);
    must(tuning_db_verify(f->db, &f->err), f->err);
    must(reopen(f), f->err);
    assert_int_equal(count_found(f), 6);
}

TEST_F(tuning_db, packing_on_a_full_disk_changes_nothing)
{
    uint64_t freed = 0;
    must(put(f, 29, 1), f->err);
    write_fails_with = ENOSPC;

    enum kiln_code rc = tuning_db_vacuum(f->db, &freed, &f->err);

    write_fails_with = 0;
    assert_int_equal(rc, KILN_FULL);
    assert_int_equal(version_of(f, 29), 1);
    must(tuning_db_vacuum(f->db, &freed, &f->err), f->err);
}

static void run_sql(struct fixture *f, const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(f->file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* Salvage reads every page that looks as if it contained records, including free pages. */
TEST_F(tuning_db, an_old_version_that_salvage_comes_upon_does_not_replace_the_newer_one)
{
    must(put(f, 1, 1), f->err);
    must(put(f, 2, 1), f->err);
    run_sql(f, "create table old (id integer primary key, tier integer, uid integer, "
               "kind integer, database_id text, backend text, key blob, content blob);"
               "insert into old select * from record");
    must(put(f, 1, 2), f->err);
    run_sql(f, "update tally set inverse = 7");

    must(reopen(f), f->err);

    assert_int_equal(version_of(f, 1), 2);
    assert_int_equal(version_of(f, 2), 1);
    assert_int_equal(f->salvage.saved, 2);
    assert_true(f->salvage.lost_unknown);
}

TEST_F(tuning_db, a_check_finds_damage_that_sqlite_accepts)
{
    for (unsigned i = 1; i <= 20; i++)
        must(put(f, i, 1), f->err);
    must(tuning_db_verify(f->db, &f->err), f->err);

    run_sql(f, "update record set uid = uid + 1 where tier = 3 and id = 4");

    assert_int_equal(tuning_db_verify(f->db, &f->err), KILN_CORRUPT);
    assert_says(f->err.text, "check");
    must(reopen(f), f->err);
    assert_int_equal(f->salvage.saved, 19);
    assert_int_equal(f->salvage.lost, 1);
    assert_false(f->salvage.lost_unknown);
    assert_int_equal(count_found(f), 19);
    run_sql(f, "delete from record where id = 3");
    assert_int_equal(tuning_db_verify(f->db, &f->err), KILN_CORRUPT);
    assert_says(f->err.text, "18 rows");
}

TEST_F(tuning_db, a_file_of_a_newer_version_is_refused_and_left_alone)
{
    must(put(f, 1, 1), f->err);
    close_db(f);
    run_sql(f, "pragma user_version = 5");

    assert_int_equal(reopen(f), KILN_UNSUPPORTED);

    assert_says(f->err.text, "newer version");
    assert_int_equal(files(f, "tuning.db.damaged-"), 0);
    run_sql(f, "pragma user_version = 4");
    must(reopen(f), f->err);
    assert_int_equal(count_found(f), 1);
}

TEST_F(tuning_db, a_file_of_the_first_version_is_brought_up_to_date)
{
    const struct tuning_put_token token = { { 7 } };
    bool has = true;
    must(put(f, 1, 1), f->err);
    close_db(f);
    run_sql(f, "drop table before_promotion; drop table recent_put; pragma user_version = 1");

    must(reopen(f), f->err);

    assert_string_equal(f->salvage.notice, "");
    assert_int_equal(version_of(f, 1), 1);
    must(tuning_db_has_put(f->db, 1000, &token, &has, &f->err), f->err);
    assert_false(has);
}
