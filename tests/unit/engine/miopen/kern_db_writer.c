/* SPDX-License-Identifier: MIT */
#include "kern_db_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define ROWS 80

/* These replace libc's functions, also for SQLite. */
static unsigned syncs;

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): libc's names are reserved
__attribute__((visibility("default"))) int fdatasync(int fd)
{
    (void)fd;
    syncs++;
    return 0;
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    (void)fd;
    syncs++;
    return 0;
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

static struct kern_db_writer *create(struct fixture *f, const char *path)
{
    struct kern_db_writer *writer = NULL;
    must(kern_db_create(path, &writer, &f->err), f->err);
    return writer;
}

static void write_row(struct fixture *f, struct kern_db_writer *writer, size_t at)
{
    BUFFER_AUTO struct buffer object = object_of(f, at);
    must(kern_db_writer_add(writer, bytes_of_text(f->rows[at].name),
                            bytes_of_text(f->rows[at].args), buffer_view(&object), &f->err),
         f->err);
}

static void write_all(struct fixture *f, const char *path)
{
    KILN_AUTO(kern_db_writer) struct kern_db_writer *writer = create(f, path);
    for (size_t i = 0; i < f->count; i++)
        write_row(f, writer, i);
    must(kern_db_writer_finish(writer, &f->err), f->err);
}

static void expect_query(struct fixture *f, const char *sql, const char *expected)
{
    shell_says(expected, f->directory, "sqlite3 %s \"%s\"", f->path, sql);
}

TEST_F(kern_db, a_written_kdb_has_miopens_schema)
{
    add_rows(f, ROWS);
    write_all(f, f->path);

    expect_query(f, "pragma integrity_check", "ok");
    expect_query(f, "pragma page_size", "4096");
    expect_query(f, "pragma journal_mode", "delete");
    expect_query(f, "pragma user_version", "0");
    expect_query(f, "pragma application_id", "0");
    expect_query(f, "pragma encoding", "UTF-8");
    expect_query(f, "pragma auto_vacuum", "0");
    expect_query(f, "select count(*) from sqlite_schema", "2");
    expect_query(f, "select sql from sqlite_schema where type = 'table'",
                 "CREATE TABLE `kern_db` (`id` INTEGER PRIMARY KEY ASC,`kernel_name` TEXT "
                 "NOT NULL,`kernel_args` TEXT NOT NULL,`kernel_blob` BLOB NOT "
                 "NULL,`kernel_hash` TEXT NOT NULL,`uncompressed_size` INT NOT NULL)");
    expect_query(f, "select name || sql from sqlite_schema where type = 'index'",
                 "idx_kern_dbCREATE UNIQUE INDEX `idx_kern_db` ON kern_db(kernel_name, "
                 "kernel_args)");
}

TEST_F(kern_db, miopen_s_own_statements_leave_the_schema_alone)
{
    add_rows(f, 3);
    write_all(f, f->path);
    add_rows(f, 1);
    free(f->rows[3].name);
    f->rows[3].name = strdup("added_by_plain_tools.o");
    f->rows[3].packed = true;
    write_rows(f, "pragma journal_mode = wal;", NULL);
    expect_query(f, "select count(*) from kern_db", "4");
    expect_query(f, "select count(*) from sqlite_schema", "2");
}

TEST_F(kern_db, sqlite3_and_bzip2_read_every_written_row)
{
    add_rows(f, ROWS);
    write_all(f, f->path);
    for (size_t i = 0; i < f->count; i++) {
        shell(f->directory,
              "sqlite3 %s \"select writefile('object.bz2', kernel_blob) from kern_db where id = "
              "%zu\" >/dev/null && if test \"$(head -c 4 object.bz2)\" = BZh9; then bzip2 -d -f "
              "object.bz2; else mv object.bz2 object; fi",
              f->path, i + 1);
        BUFFER_AUTO struct buffer object = object_of(f, i);
        char expected[32];
        snprintf(expected, sizeof(expected), "%zu", object.size);
        shell_says(expected, f->directory, "stat -c %%s object");
        KILN_AUTO(mem) char *hash = shell_text(f->directory, "md5sum <object | head -c 32");
        shell_says(hash, f->directory,
                   "sqlite3 %s 'select kernel_hash from kern_db where id = %zu'", f->path, i + 1);
        shell_says("texttextblobtextinteger", f->directory,
                   "sqlite3 %s 'select typeof(kernel_name) || typeof(kernel_args) || "
                   "typeof(kernel_blob) || typeof(kernel_hash) || typeof(uncompressed_size) "
                   "from kern_db where id = %zu'",
                   f->path, i + 1);
    }
}

TEST_F(kern_db, written_rows_equal_those_of_sqlite3_and_bzip2)
{
    char plain[PATH_LENGTH_MAX];
    add_genuine_rows(f);
    write_rows(f, NULL, NULL);
    snprintf(plain, sizeof(plain), "%s/plain.kdb", f->directory);
    shell(f->directory, "mv %s plain.kdb", f->path);

    write_all(f, f->path);

    shell_says("978", f->directory,
               "sqlite3 %s \"attach 'plain.kdb' as p; select count(*) from (select * from "
               "main.kern_db intersect select * from p.kern_db)\"",
               f->path);
    open_db(f);
    assert_all_found(f);
}

TEST_F(kern_db, an_incompressible_object_is_stored_uncompressed)
{
    KILN_AUTO(kern_db_writer) struct kern_db_writer *writer = create(f, f->path);
    must(kern_db_writer_add(writer, bytes_of_text("a.o"), bytes_of_text(""), bytes_of_text("abc"),
                            &f->err),
         f->err);
    must(kern_db_writer_finish(writer, &f->err), f->err);
    expect_query(f, "select kernel_blob, uncompressed_size, kernel_hash from kern_db",
                 "abc|0|900150983cd24fb0d6963f7d28e17f72");
}

TEST_F(kern_db, equal_rows_give_equal_kdb_files)
{
    char other[PATH_LENGTH_MAX];
    add_rows(f, 400);
    snprintf(other, sizeof(other), "%s/other.kdb", f->directory);
    write_all(f, f->path);
    write_all(f, other);
    shell(f->directory, "cmp %s other.kdb", f->path);
    shell_says(" 00 00 00 01", f->directory, "head -c 28 %s | tail -c 4 | od -An -tx1", f->path);
    shell_says("gfx906_60.ukdb\nother.kdb", f->directory, "ls");
    shell_says("644", f->directory, "stat -c %%a %s", f->path);
}

TEST_F(kern_db, rows_that_were_read_can_be_written_again)
{
    add_rows(f, ROWS);
    write_all(f, f->path);
    open_db(f);
    assert_all_found(f);
    struct listing l = list_rows(f, 0, UINT64_MAX);
    assert_int_equal(l.good, ROWS);
}

static enum kiln_code try_row(struct fixture *f, struct kern_db_writer *writer, struct bytes name,
                              struct bytes args, struct bytes raw)
{
    return kern_db_writer_add(writer, name, args, raw, &f->err);
}

TEST_F(kern_db, after_a_refused_row_the_kdb_writer_continues)
{
    static char letters[(64u << 10) + 1];
    memset(letters, 'x', sizeof(letters));
    struct bytes name = bytes_of_text("a.o"), args = bytes_of_text("-DA"),
                 raw = bytes_of_text("raw"), most = bytes_of(letters, sizeof(letters) - 1),
                 more = bytes_of(letters, sizeof(letters)), nul = bytes_of("a\0b", 3);
    KILN_AUTO(kern_db_writer) struct kern_db_writer *writer = create(f, f->path);
    must(try_row(f, writer, name, args, raw), f->err);

    assert_int_equal(try_row(f, writer, name, args, raw), KILN_INVALID);
    assert_says(f->err.text, "'a.o'");
    assert_int_equal(try_row(f, writer, name, most, bytes_of("", 0)), KILN_INVALID);
    assert_says(f->err.text, "empty");
    assert_int_equal(try_row(f, writer, name, more, raw), KILN_INVALID);
    assert_says(f->err.text, "65537");
    assert_int_equal(try_row(f, writer, more, args, raw), KILN_INVALID);
    assert_int_equal(try_row(f, writer, nul, args, raw), KILN_INVALID);
    assert_says(f->err.text, "NUL");
    assert_int_equal(try_row(f, writer, name, args, bytes_of(letters, (256u << 20) + 1)),
                     KILN_INVALID);
    assert_says(f->err.text, "268435456");

    must(try_row(f, writer, name, most, raw), f->err);
    must(kern_db_writer_finish(writer, &f->err), f->err);
    expect_query(f, "select count(*) from kern_db", "2");
}

TEST_F(kern_db, an_unfinished_kdb_is_removed)
{
    add_rows(f, 5);
    struct kern_db_writer *writer = create(f, f->path);
    write_row(f, writer, 0);
    kern_db_writer_destroy(writer);
    shell_says("", f->directory, "ls");
}

TEST_F(kern_db, the_kdb_writer_never_overwrites_a_file)
{
    struct kern_db_writer *writer = NULL;
    shell(f->directory, "echo mine > %s", f->path);
    assert_int_equal(kern_db_create(f->path, &writer, &f->err), KILN_IO);
    assert_says(f->err.text, "File exists");
    shell_says("mine", f->directory, "cat %s", f->path);
    assert_int_equal(kern_db_create("/absent/directory/x.kdb", &writer, &f->err), KILN_NOT_FOUND);
    assert_says(f->err.text, "/absent/directory/x.kdb");
    assert_null(writer);
}

/* kilnd only sends a descriptor of the file, so the file is lost in a power failure anyway. */
TEST_F(kern_db, writing_a_kdb_does_not_wait_for_the_disk)
{
    add_rows(f, ROWS);
    syncs = 0;
    write_all(f, f->path);
    assert_int_equal(syncs, 0);
}

/* A limit on the file size has the same effect on the writer as a full disk. */
TEST_F(kern_db, a_full_disk_leaves_no_kdb)
{
    struct rlimit before, small = { 0 };
    add_rows(f, ROWS);
    struct kern_db_writer *writer = create(f, f->path);
    for (size_t i = 0; i < f->count; i++)
        write_row(f, writer, i);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){ .rlim_cur = 20000, .rlim_max = before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);

    enum kiln_code rc = kern_db_writer_finish(writer, &f->err);

    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_says(f->err.text, "disk space");
    assert_int_equal(rc, KILN_FULL);
    shell_says("", f->directory, "ls");
    kern_db_writer_destroy(writer);
}

int main(int argc, char **argv)
{
    umask(022);
    return test_main(argc, argv);
}
