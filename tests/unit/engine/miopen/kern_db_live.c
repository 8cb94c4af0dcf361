/* SPDX-License-Identifier: MIT */
#include "engine/db/snapshot.h"
#include "kern_db_fixture.h"
#include "tests/support/child.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ROWS 40

/* A sqlite3 process that has the file open, as MIOpen would. */
struct writer {
    pid_t pid;
    FILE *in, *out; /* owned */
};

static void writer_start(struct writer *w, const struct fixture *f)
{
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    w->pid = fork();
    assert_true(w->pid >= 0);
    if (w->pid == 0) {
        if (dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0 || chdir(f->directory) != 0)
            _exit(126);
        execlp("sqlite3", "sqlite3", "-bail", f->path, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    w->in = fdopen(in[1], "w");
    w->out = fdopen(out[0], "r");
    assert_true(w->in && w->out);
}

static void writer_do(struct writer *w, const char *sql)
{
    char line[256];
    fprintf(w->in, "%s;\nselect 'done';\n", sql);
    fflush(w->in);
    do
        assert_non_null(fgets(line, sizeof(line), w->out));
    while (strcmp(line, "done\n") != 0);
}

static void writer_wait(struct writer *w)
{
    fclose(w->in);
    fclose(w->out);
    await_child(w->pid);
}

static void writer_kill(struct writer *w)
{
    kill(w->pid, SIGKILL);
    writer_wait(w);
}

/* Makes a file that a sqlite3 process has open. Ten rows are in the file, and the others only in
 * the write-ahead log. */
static void begin_live_file(struct fixture *f, struct writer *w)
{
    add_rows(f, ROWS);
    write_rows(f, "pragma journal_mode = wal;", NULL);
    shell(f->directory,
          "sqlite3 %s 'create table aside as select * from kern_db where id > 10;"
          "delete from kern_db where id > 10'",
          f->path);
    writer_start(w, f);
    writer_do(w, "pragma wal_autocheckpoint = 0; insert into kern_db select * from aside");
    shell(f->directory, "ls *-wal");
}

/* Writes names, sizes, times, permissions and content of all files in the directory to
 * notes-|name|. */
static void note_directory(struct fixture *f, const char *name)
{
    shell(f->directory,
          "(find . -name 'gfx*' -printf '%%p %%s %%T@ %%m\n' | sort; cat gfx*) > notes-%s", name);
}

static void assert_untouched(struct fixture *f)
{
    note_directory(f, "after");
    shell(f->directory, "cmp notes-before notes-after");
}

static enum kiln_code copy_live(struct fixture *f, char ret_copy[PATH_LENGTH_MAX])
{
    snprintf(ret_copy, PATH_LENGTH_MAX, "%s/copy.kdb", f->directory);
    f->err = KILN_ERR_INIT;
    enum kiln_code rc = db_snapshot(f->path, ret_copy, false, &f->err);
    return rc ? rc : db_snapshot_merge(ret_copy, &f->err);
}

static void open_live(struct fixture *f)
{
    char copy[PATH_LENGTH_MAX];
    must(copy_live(f, copy), f->err);
    must(kern_db_open(copy, &f->db, &f->err), f->err);
}

static void assert_all_live(struct fixture *f)
{
    must(kern_db_check(f->db, &f->err), f->err);
    assert_all_found(f);
    assert_int_equal(list_rows(f, 0, UINT64_MAX).good, f->count);
}

TEST_F(kern_db, live_rows_that_are_only_in_the_log_are_read)
{
    struct writer w;
    begin_live_file(f, &w);
    note_directory(f, "before");

    open_live(f);

    assert_all_live(f);
    assert_untouched(f);
    writer_kill(&w);
}

TEST_F(kern_db, an_immutable_reader_ignores_the_log)
{
    struct writer w;
    bool damaged = false;
    begin_live_file(f, &w);
    open_db(f);
    assert_int_equal(find_row(f, ROWS - 1, &damaged), KILN_NOT_FOUND);
    assert_false(damaged);
    writer_kill(&w);
}

TEST_F(kern_db, an_unfinished_transaction_is_not_read)
{
    struct writer w;
    begin_live_file(f, &w);
    writer_do(&w, "pragma cache_size = 1; begin; delete from kern_db; "
                  "insert into kern_db select id, kernel_name || 'x', kernel_args, kernel_blob, "
                  "kernel_hash, uncompressed_size from aside");
    open_live(f);
    assert_all_live(f);
    writer_kill(&w);
}

TEST_F(kern_db, rows_of_a_killed_writer_are_read)
{
    struct writer w;
    begin_live_file(f, &w);
    writer_do(&w, "begin; delete from kern_db");
    writer_kill(&w);
    note_directory(f, "before");
    open_live(f);
    assert_all_live(f);
    assert_untouched(f);
}

TEST_F(kern_db, a_log_without_its_shm_file_is_read)
{
    struct writer w;
    begin_live_file(f, &w);
    writer_kill(&w);
    shell(f->directory, "rm %s-shm", f->path);
    note_directory(f, "before");
    open_live(f);
    assert_all_live(f);
    assert_untouched(f);
}

TEST_F(kern_db, a_database_in_a_read_only_directory_is_read)
{
    struct writer w;
    begin_live_file(f, &w);
    shell(f->directory, "chmod 755 . && chmod 444 gfx* && chmod 555 .");
    char copy[PATH_LENGTH_MAX], other[] = "/tmp/kiln-copy-XXXXXX";
    uid_t before = geteuid();
    assert_true(before != 0 || seteuid(65534) == 0);
    assert_non_null(mkdtemp(other));
    snprintf(copy, sizeof(copy), "%s/copy.kdb", other);

    enum kiln_code rc = db_snapshot(f->path, copy, false, &f->err);
    if (!rc)
        rc = db_snapshot_merge(copy, &f->err);

    assert_int_equal(seteuid(before), 0);
    shell(f->directory, "chmod 700 .");
    must(rc, f->err);
    must(kern_db_open(copy, &f->db, &f->err), f->err);
    db_snapshot_remove(copy);
    rmdir(other);
    assert_all_live(f);
    writer_kill(&w);
}

TEST(kern_db, a_live_reader_neither_waits_nor_blocks_writers)
{
    struct fixture *f = *state;
    struct writer w;
    begin_live_file(f, &w);
    open_live(f);
    writer_do(&w, "pragma busy_timeout = 0; delete from kern_db where id = 40; "
                  "pragma wal_checkpoint(truncate); pragma journal_mode = delete");
    shell_says(" 01 01", f->directory, "head -c 20 %s | tail -c 2 | od -An -tx1", f->path);
    assert_all_live(f);
    writer_kill(&w);
}

TEST_F(kern_db, a_file_in_rollback_mode_is_read_too)
{
    struct writer w;
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    writer_start(&w, f);
    writer_do(&w, "begin immediate; delete from kern_db where id < 5");
    note_directory(f, "before");
    open_live(f);
    assert_all_live(f);
    assert_untouched(f);
    writer_kill(&w);
}

/* The killed writer left pages of an unfinished transaction in the file, and the old pages in
 * the journal. */
TEST_F(kern_db, a_journal_left_by_a_dead_writer_is_rolled_back)
{
    struct writer w;
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    shell(f->directory, "cp %s before", f->path);
    writer_start(&w, f);
    writer_do(&w,
              "pragma cache_size = 1; begin exclusive; update kern_db set kernel_name = 'x' || id");
    writer_kill(&w);
    shell(f->directory, "! cmp -s %s before && test -s %s-journal", f->path, f->path);
    note_directory(f, "before");

    open_live(f);

    assert_all_live(f);
    assert_untouched(f);
}

/* A journal may state the name of another file, which SQLite would open and delete. */
TEST_F(kern_db, a_journal_that_names_another_file_is_refused)
{
    struct writer w;
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    shell(f->directory, "touch victim");
    writer_start(&w, f);
    writer_do(&w,
              "pragma cache_size = 1; begin exclusive; update kern_db set kernel_name = 'x' || id");
    writer_kill(&w);
    shell(f->directory,
          "printf 'victim\\0\\0\\0\\6\\0\\0\\2\\205\\331\\325\\5\\371\\40\\241\\143\\327' >> "
          "%s-journal",
          f->path);
    char copy[PATH_LENGTH_MAX];
    assert_int_equal(copy_live(f, copy), KILN_CORRUPT);
    assert_says(f->err.text, "several");
    shell(f->directory, "test -e victim");
}

TEST_F(kern_db, the_holder_of_a_lock_is_named)
{
    struct writer w;
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    writer_start(&w, f);
    writer_do(&w, "begin exclusive; delete from kern_db where id < 5");
    char copy[PATH_LENGTH_MAX];
    assert_int_equal(copy_live(f, copy), KILN_BUSY);
    assert_says(f->err.text, "locked");
    writer_kill(&w);
}

TEST_F(kern_db, a_copy_of_a_live_database_is_complete)
{
    struct writer w;
    char copy[PATH_LENGTH_MAX];
    begin_live_file(f, &w);
    must(copy_live(f, copy), f->err);
    writer_kill(&w);
    shell_says(" 01 01", f->directory, "head -c 20 copy.kdb | tail -c 2 | od -An -tx1");
    shell_says("copy.kdb", f->directory, "ls copy.kdb*");
    shell_says("600", f->directory, "stat -c %%a copy.kdb");

    memcpy(f->path, copy, sizeof(copy));
    open_db(f);
    assert_all_live(f);
}

/* SQLite's recovery stops at the damaged page, as it does when MIOpen opens the cache. */
TEST_F(kern_db, transactions_after_a_damaged_page_of_the_log_are_not_read)
{
    struct writer w;
    begin_live_file(f, &w);
    writer_kill(&w);
    shell(f->directory,
          "printf damage | dd of=%s-wal bs=1 conv=notrunc status=none "
          "seek=$(($(stat -c %%s %s-wal) / 2))",
          f->path, f->path);
    open_live(f);
    must(kern_db_check(f->db, &f->err), f->err);
    assert_int_equal(list_rows(f, 0, UINT64_MAX).good, 10);
}

TEST_F(kern_db, a_copy_never_overwrites_a_file)
{
    char copy[PATH_LENGTH_MAX];
    add_rows(f, 5);
    write_rows(f, NULL, NULL);
    shell(f->directory, "echo mine > copy.kdb; echo mine > copy.kdb-wal");
    assert_int_equal(copy_live(f, copy), KILN_IO);
    assert_says(f->err.text, "File exists");
    shell_says("minemine", f->directory, "cat copy.kdb copy.kdb-wal | tr -d '\\n'");
}

TEST_F(kern_db, a_copy_of_another_kind_of_file_is_refused)
{
    char copy[PATH_LENGTH_MAX];
    assert_int_equal(copy_live(f, copy), KILN_NOT_FOUND);
    shell(f->directory, "head -c 9000 /dev/urandom > %s", f->path);
    assert_int_equal(copy_live(f, copy), KILN_CORRUPT);
    assert_says(f->err.text, "copy.kdb");
}
