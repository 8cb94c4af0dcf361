/* SPDX-License-Identifier: MIT */
#include "kern_db_fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ROWS 60
#define NOBODY 65534

TEST_F(kern_db, finds_every_row_that_plain_tools_wrote)
{
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    open_db(f);
    assert_all_found(f);
}

TEST_F(kern_db, finds_every_genuine_name_and_its_arguments)
{
    add_genuine_rows(f);
    assert_int_equal(f->count, 978);
    write_rows(f, "pragma journal_mode = wal;", NULL);
    open_db(f);

    assert_all_found(f);

    struct listing l = list_rows(f, 0, UINT64_MAX);
    assert_int_equal(l.given, 978);
    assert_int_equal(l.good, 978);
    assert_int_equal(l.rc, KILN_OK);
}

static enum kiln_code find(struct fixture *f, const char *name, const char *args)
{
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, OBJECT_LIMIT);
    bool damaged = true;
    enum kiln_code rc =
        kern_db_find(f->db, &(struct kern_name){ bytes_of_text(name), bytes_of_text(args) }, &raw,
                     &damaged, &f->err);
    assert_false(damaged);
    return rc;
}

TEST_F(kern_db, kernel_names_and_arguments_are_compared_verbatim)
{
    add_row(f, "conv.s.o", "  -DA=1  -DB=2 -mcpu=gfx906 ", 500, true);
    add_row(f, "it's \"quoted\".s.o", " -DC='--; drop table kern_db'", 500, true);
    write_rows(f, NULL, NULL);
    open_db(f);
    assert_all_found(f);

    assert_int_equal(find(f, "conv.s.o", " -DA=1  -DB=2 -mcpu=gfx906 "), KILN_NOT_FOUND);
    assert_int_equal(find(f, "conv.s.o", "  -DA=1  -DB=2 -mcpu=gfx906"), KILN_NOT_FOUND);
    assert_int_equal(find(f, "conv.s.o", "  -DB=2  -DA=1 -mcpu=gfx906 "), KILN_NOT_FOUND);
    assert_int_equal(find(f, "CONV.s.o", "  -DA=1  -DB=2 -mcpu=gfx906 "), KILN_NOT_FOUND);
    assert_int_equal(find(f, "", ""), KILN_NOT_FOUND);
    assert_string_equal(f->err.text, "");
}

TEST_F(kern_db, a_nul_does_not_end_a_kernel_name)
{
    add_row(f, "conv.s.o", "-DA", 500, true);
    write_rows(f, NULL, NULL);
    open_db(f);
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, OBJECT_LIMIT);
    bool damaged = true;
    assert_int_equal(
        kern_db_find(f->db,
                     &(struct kern_name){ bytes_of("conv.s.o\0x", 10), bytes_of_text("-DA") }, &raw,
                     &damaged, &f->err),
        KILN_NOT_FOUND);
}

TEST_F(kern_db, a_kernel_is_appended_to_the_contents_of_the_buffer)
{
    add_row(f, "conv.s.o", "-DA", 500, true);
    write_rows(f, NULL, NULL);
    open_db(f);
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, OBJECT_LIMIT);
    buffer_put(&raw, "before", 6);
    bool damaged = true;
    must(kern_db_find(f->db, &(struct kern_name){ bytes_of_text("conv.s.o"), bytes_of_text("-DA") },
                      &raw, &damaged, &f->err),
         f->err);
    assert_int_equal(raw.size, 506);
    assert_memory_equal(raw.data, "before", 6);
}

TEST_F(kern_db, a_kernel_database_without_an_index_is_read)
{
    add_rows(f, ROWS);
    write_rows(f, NULL, "");
    open_db(f);
    assert_all_found(f);
    struct listing l = list_rows(f, 0, UINT64_MAX);
    assert_int_equal(l.good, ROWS);
}

/* The index of MIOpen's first versions allows two rows with the same name and arguments. */
TEST_F(kern_db, the_intact_one_of_two_equal_rows_is_found)
{
    add_row(f, "conv.s.o", "-DA", 500, true);
    write_rows(f, NULL,
               "CREATE UNIQUE INDEX `idx_kern_db` ON kern_db(kernel_name, kernel_args, "
               "kernel_hash, uncompressed_size);");
    shell(f->directory,
          "sqlite3 %s \"insert into kern_db select 0, kernel_name, kernel_args, kernel_blob, "
          "'00000000000000000000000000000000', uncompressed_size from kern_db\"",
          f->path);
    open_db(f);
    bool damaged = false;
    must(find_row(f, 0, &damaged), f->err);
}

TEST_F(kern_db, further_columns_are_accepted)
{
    add_rows(f, 10);
    write_rows(f, NULL, NULL);
    shell(f->directory,
          "sqlite3 %s \"alter table kern_db add column more text default 'x';"
          "create table other (a); create view v as select * from kern_db\"",
          f->path);
    open_db(f);
    assert_all_found(f);
}

TEST_F(kern_db, kernel_rows_can_be_listed_in_parts)
{
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    open_db(f);
    uint64_t count = 0;
    must(kern_db_count(f->db, &count, &f->err), f->err);
    assert_int_equal(count, ROWS);

    struct listing first = list_rows(f, 0, 25);
    assert_int_equal(first.given, 25);
    assert_int_equal(first.latest, 25);
    struct listing rest = list_rows(f, first.latest, 1000);
    assert_int_equal(rest.good, ROWS - 25);
    assert_int_equal(list_rows(f, ROWS, 10).given, 0);
    assert_int_equal(list_rows(f, 0, 0).given, 0);
}

static bool stop(void *context, const struct kern_row *row)
{
    (void)row;
    return ++*(int *)context < 3;
}

TEST_F(kern_db, a_listing_stops_when_its_callback_says_so)
{
    add_rows(f, 10);
    write_rows(f, NULL, NULL);
    open_db(f);
    int calls = 0;
    const struct kern_listing rows = { .count = 10, .each = stop, .context = &calls };
    must(kern_db_each(f->db, &rows, &f->err), f->err);
    assert_int_equal(calls, 3);
}

static unsigned long long bytes_read(void)
{
    unsigned long long read = 0;
    FILE *file = fopen("/proc/self/io", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "rchar: %llu", &read), 1);
    fclose(file);
    return read;
}

/* Each step of an import lists some rows. A step must be short, so it must not read all rows. */
TEST_F(kern_db, listing_the_first_row_does_not_read_the_others)
{
    int calls = 2;
    shell(f->directory,
          "sqlite3 %s \"pragma page_size = 512; create table kern_db (id integer primary key, "
          "kernel_name text, kernel_args text, kernel_blob blob, kernel_hash text, "
          "uncompressed_size int); create index i on kern_db (kernel_name, kernel_args); "
          "with recursive n (i) as (select 1 union all select i + 1 from n limit 50000) "
          "insert into kern_db select i, '', i, '', '', 0 from n\"",
          f->path);
    open_db(f);
    unsigned long long before = bytes_read();
    const struct kern_listing rows = { .count = 10, .each = stop, .context = &calls };
    must(kern_db_each(f->db, &rows, &f->err), f->err);
    assert_int_equal(calls, 3);
    assert_in_range(bytes_read() - before, 512, 32768);
}

static bool count_too_long(void *context, const struct kern_row *row)
{
    struct kiln_err why = KILN_ERR_INIT;
    if (kern_row_check(row, &why) == KILN_OK)
        return true;
    assert_int_equal(why.code, KILN_CORRUPT);
    assert_says(why.text, "a text has more than 65536 bytes");
    return ++*(int *)context;
}

TEST_F(kern_db, rows_with_texts_longer_than_any_genuine_ones_are_damaged)
{
    add_rows(f, 10);
    write_rows(f, NULL, NULL);
    shell(f->directory,
          "sqlite3 %s \"update kern_db set kernel_args = hex(zeroblob(40000)) where id <= 5\"",
          f->path);
    open_db(f);
    int damaged = 0;
    const struct kern_listing rows = { .count = 10, .each = count_too_long, .context = &damaged };
    must(kern_db_each(f->db, &rows, &f->err), f->err);
    assert_int_equal(damaged, 5);
}

TEST_F(kern_db, a_row_that_fails_its_check_is_a_miss_with_a_message)
{
    static const struct {
        const char *change, *says;
    } changes[] = {
        { "kernel_hash = 'd41d8cd98f00b204e9800998ecf8427e'", "md5" },
        { "kernel_hash = upper(kernel_hash)", "md5" },
        { "kernel_hash = ''", "md5" },
        { "uncompressed_size = uncompressed_size + 1", "instead of" },
        { "uncompressed_size = uncompressed_size - 1", "more than" },
        { "uncompressed_size = 0", "md5" },
        { "uncompressed_size = -1", "268435456" },
        { "uncompressed_size = 268435457", "268435456" },
        { "uncompressed_size = 'many'", "md5" },
        { "kernel_blob = x''", "is empty" },
        { "kernel_blob = x'425a6839'", "too early" },
        { "kernel_hash = hex(zeroblob(40000))", "65536" },
    };
    add_row(f, "conv.s.o", "-DA", 500, true);
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        bool damaged = false;
        shell(f->directory, "rm -f *.ukdb");
        write_rows(f, NULL, NULL);
        shell(f->directory, "sqlite3 %s \"update kern_db set %s\"", f->path, changes[i].change);
        open_db(f);
        enum kiln_code rc = find_row(f, 0, &damaged);
        if (rc != KILN_NOT_FOUND || !damaged)
            fail_msg("'%s': code %d, damaged %d", changes[i].change, (int)rc, (int)damaged);
        assert_says(f->err.text, changes[i].says);
    }
}

TEST_F(kern_db, a_full_buffer_is_not_damage)
{
    add_row(f, "conv.s.o", "-DA", 500, true);
    add_row(f, "conv.s.o", "-DB", 500, false);
    write_rows(f, NULL, NULL);
    open_db(f);
    for (size_t i = 0; i < 2; i++) {
        BUFFER_AUTO struct buffer raw;
        buffer_init(&raw, 499);
        bool damaged = true;
        assert_int_equal(kern_db_find(f->db,
                                      &(struct kern_name){ bytes_of_text("conv.s.o"),
                                                           bytes_of_text(f->rows[i].args) },
                                      &raw, &damaged, &f->err),
                         KILN_NO_MEMORY);
        assert_false(damaged);
    }
}

static void refuse(struct fixture *f, const char *path, enum kiln_code code, const char *says)
{
    enum kiln_code rc = kern_db_open(path, &f->db, &f->err);
    if (rc != code)
        fail_msg("%s: code %d, '%s'", says, (int)rc, f->err.text);
    assert_null(f->db);
    assert_says(f->err.text, says);
    assert_says(f->err.text, path);
}

TEST_F(kern_db, a_file_that_is_not_a_database_is_refused)
{
    refuse(f, f->path, KILN_NOT_FOUND, "cannot open");
    shell(f->directory, ": > %s", f->path);
    refuse(f, f->path, KILN_CORRUPT, "is empty");
    shell(f->directory, "echo 'not a database' > %s", f->path);
    refuse(f, f->path, KILN_CORRUPT, "database");
    shell(f->directory, "head -c 100000 /dev/urandom > %s", f->path);
    refuse(f, f->path, KILN_CORRUPT, "database");
    shell(f->directory, "rm %s; mkfifo %s", f->path, f->path);
    refuse(f, f->path, KILN_CORRUPT, "regular file");
    refuse(f, f->directory, KILN_CORRUPT, "regular file");
}

static void refuse_schema(struct fixture *f, const char *sql, const char *says)
{
    shell(f->directory, "rm -f %s; sqlite3 %s \"%s\"", f->path, f->path, sql);
    refuse(f, f->path, KILN_CORRUPT, says);
}

#define BUT_FOR_HASH                                                                 \
    "id integer primary key, kernel_name text, kernel_args text, kernel_blob blob, " \
    "uncompressed_size int"

TEST_F(kern_db, a_database_without_kern_db_is_refused)
{
    refuse_schema(f, "create table other (a)", "table 'kern_db'");
    refuse_schema(f, "create table kern_db (" BUT_FOR_HASH ")", "column 'kernel_hash'");
    refuse_schema(f, "create table kern_db (a)", "column 'kernel_name'");
}

TEST_F(kern_db, an_oversized_schema_is_refused)
{
    shell(f->directory,
          "(echo 'create table kern_db (kernel_name text, kernel_args text, kernel_blob blob, '; "
          "head -c 150000 /dev/zero | tr '\\0' ' '; "
          "echo 'kernel_hash text, uncompressed_size int);') | sqlite3 %s",
          f->path);
    refuse(f, f->path, KILN_CORRUPT, "schema");
}

/* A view or a virtual table could run expressions that the file contains. */
TEST_F(kern_db, a_view_that_looks_like_the_table_is_refused)
{
    refuse_schema(f,
                  "create table k (" BUT_FOR_HASH ", kernel_hash text);"
                  "create view kern_db as select * from k",
                  "table 'kern_db'");
    refuse_schema(f,
                  "create virtual table kern_db using fts5 (kernel_name, kernel_args, "
                  "kernel_blob, kernel_hash, uncompressed_size)",
                  "column 'kernel_name'");
    refuse_schema(f,
                  "create table kern_db (" BUT_FOR_HASH ", kernel_hash text as (hex(kernel_blob)))",
                  "column 'kernel_hash'");
    refuse_schema(f,
                  "create table kern_db (kernel_name text, kernel_args text, kernel_blob blob, "
                  "kernel_hash text, uncompressed_size int, primary key (kernel_name)) "
                  "without rowid",
                  "rowid");
}

TEST_F(kern_db, an_unreadable_kernel_database_is_denied)
{
    add_rows(f, 1);
    write_rows(f, NULL, NULL);
    shell(f->directory, "chmod 0 %s", f->path);
    uid_t before = geteuid();
    assert_true(before != 0 || seteuid(NOBODY) == 0);
    refuse(f, f->path, KILN_DENIED, "cannot open");
    assert_int_equal(seteuid(before), 0);
}

TEST_F(kern_db, a_database_path_may_contain_any_bytes)
{
    add_rows(f, 3);
    write_rows(f, NULL, NULL);
    shell(f->directory, "mkdir 'a ?b#c%%20'; mv %s 'a ?b#c%%20/x&mode=rw.kdb'", f->path);
    snprintf(f->path, sizeof(f->path), "/%s/a ?b#c%%20/x&mode=rw.kdb", f->directory);
    open_db(f);
    assert_all_found(f);
}
