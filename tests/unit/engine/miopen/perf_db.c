/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/support/test_buffer.h"

#include "common/base/fs.h"
#include "engine/miopen/tuning_reader.h"
#include "tests/support/whole_tuning_file.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(batch) "2x64x56x56x1x3x3x1x64x" batch "x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"

struct fixture {
    const char *directory;
    char path[100], copy[100];
    struct buffer reported; /* a line for each record and each bad row */
    size_t records, bad;
    bool stop;
    struct perf_db_writer *writer; /* owned; gets every record, too */
    struct kiln_err err;
};

SET_UP(setup)
{
    f->directory = test_directory();
    snprintf(f->path, sizeof(f->path), "%s/gfx906_60.db", f->directory);
    snprintf(f->copy, sizeof(f->copy), "%s/copy.db", f->directory);
    test_buffer(&f->reported, 1u << 20);
}

TEAR_DOWN(teardown) { perf_db_writer_destroy(f->writer); }

FIXTURE(perf_db, setup, teardown);

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    char *why = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_exec(db, "pragma synchronous = off; pragma journal_mode = memory", NULL, NULL, NULL);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", why, sql);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* MIOpen's schema without the constraints, so that tests can insert invalid rows. */
static const char loose[] =
    "create table config (id integer primary key, layout text, data_type text, direction text,"
    "spatial_dim int, in_channels int, in_h int, in_w int, in_d int, fil_h int, fil_w int,"
    "fil_d int, out_channels int, batchsize int, pad_h int, pad_w int, pad_d int,"
    "conv_stride_h int, conv_stride_w int, conv_stride_d int, dilation_h int, dilation_w int,"
    "dilation_d int, bias int, group_count int);"
    "create table perf_db (id integer primary key, solver text, config integer, params text);"
    "insert into config values (3,'NCHW','FP32','F',2,64,56,56,1,3,3,1,64,8,1,1,0,1,1,0,1,1,0,0,1);"
    "insert into config values (5,'NCHW','FP32','F',2,64,56,56,1,3,3,1,64,9,1,1,0,1,1,0,1,1,0,0,1);"
    "insert into perf_db values (10,'B',5,'1,2'),(11,'A',3,'7'),(12,'A',5,''),(14,'C',3,'8');";

static bool on_record(void *context, const struct tuning_record *r)
{
    struct fixture *f = context;
    static char line[TUNING_VALUE_MAX + TUNING_KEY_MAX + 64];
    int size = snprintf(line, sizeof(line), "%llu %.*s=%.*s", (unsigned long long)r->line,
                        (int)r->key.size, (const char *)r->key.data, (int)r->value.size,
                        r->value.size ? (const char *)r->value.data : "");
    buffer_put(&f->reported, line, (size_t)size);
    assert_int_equal(r->id_count, r->entry_count);
    for (size_t i = 0; i < r->id_count; i++) {
        size = snprintf(line, sizeof(line), " %llu", (unsigned long long)r->ids[i]);
        buffer_put(&f->reported, line, (size_t)size);
    }
    buffer_put_u8(&f->reported, '\n');
    f->records++;
    if (f->writer)
        must(perf_db_writer_add(f->writer, r, &f->err), f->err);
    return !f->stop;
}

static bool on_bad(void *context, uint64_t row, const char *why)
{
    struct fixture *f = context;
    char line[400];
    int size = snprintf(line, sizeof(line), "bad %llu %s\n", (unsigned long long)row, why);
    buffer_put(&f->reported, line, (size_t)size);
    f->bad++;
    return !f->stop;
}

static enum kiln_code try_read(struct fixture *f, const char *path)
{
    struct tuning_reader_events events = { on_record, on_bad, NULL, f };
    f->reported.size = f->records = f->bad = 0;
    enum kiln_code rc = perf_db_read(path, &events, &f->err);
    buffer_put_u8(&f->reported, '\0');
    assert_false(f->reported.failed);
    return rc;
}

/* Each step gets an end time in the past, so it reads one row. Returns the number of steps. */
static unsigned read_in_steps(struct fixture *f)
{
    const struct tuning_reader_events events = { on_record, on_bad, NULL, f };
    KILN_AUTO(perf_db_reader) struct perf_db_reader *reader = NULL;
    unsigned steps = 0;
    f->reported.size = f->records = f->bad = 0;
    must(perf_db_reader_open(f->path, &reader, &f->err), f->err);
    for (bool more = true; more; steps++)
        must(perf_db_reader_step(reader, &events, /* end_ns= */ 0, &more, &f->err), f->err);
    buffer_put_u8(&f->reported, '\0');
    return steps;
}

static void compare_with_steps(struct fixture *f)
{
    char *at_once = strdup((const char *)f->reported.data);
    read_in_steps(f);
    assert_string_equal(f->reported.data, at_once);
    free(at_once);
}

static const char *read_loose(struct fixture *f, const char *sql)
{
    unlink(f->path);
    run_sql(f->path, loose);
    run_sql(f->path, sql);
    must(try_read(f, f->path), f->err);
    if (!f->writer)
        compare_with_steps(f);
    return (const char *)f->reported.data;
}

#define RECORD_3 "3 " KEY("8") "=A:7;C:8 11 14\n"
#define RECORD_5 "5 " KEY("9") "=B:1,2;A: 10 12\n"

TEST(perf_db, perf_db_records_come_by_config_and_entries_by_id)
{
    assert_string_equal(read_loose(*state, ""), RECORD_3 RECORD_5);
}

/* The reader needs a step for each of four rows of perf_db, two rows of config, the ends of both
 * tables, and two records. */
TEST_F(perf_db, a_late_step_reads_one_row)
{
    read_loose(f, "");
    assert_in_range(read_in_steps(f), 8, 16);
}

/* The order of the rows does not depend on the steps in which they were sorted. */
TEST_F(perf_db, rows_of_many_configs_are_sorted_in_steps)
{
    read_loose(f, "with recursive n(i) as (select 1 union all select i + 1 from n where i < 500) "
                  "insert into perf_db select 100 + i, 'S' || i, 3 + 2 * (i * 7 % 2), '1' from n");
    assert_int_equal(f->records, 2);
    assert_int_equal(f->bad, 0);
    assert_true(read_in_steps(f) > 500);
}

TEST(perf_db, a_config_without_rows_is_a_record_without_entries)
{
    assert_string_equal(read_loose(*state, "delete from perf_db where config = 3"),
                        "3 " KEY("8") "=\n" RECORD_5);
}

static const struct {
    const char *sql, *says;
    size_t bad;
} damage[] = {
    { "insert into perf_db values (20,NULL,3,'1')", "solver", 1 },
    { "insert into perf_db values (20,'D',3,NULL)", "params", 1 },
    { "insert into perf_db values (20,'D',3,x'31')", "params", 1 },
    { "insert into perf_db values (20,'D',NULL,'1')", "config", 1 },
    { "insert into perf_db values (20,'D','x','1')", "config", 1 },
    { "insert into perf_db values (20,'D',3.5,'1')", "config", 1 },
    { "insert into perf_db values (20,'',3,'1')", "id", 1 },
    { "insert into perf_db values (20,'D;E:1',3,'1')", "bad 20", 1 },
    { "insert into perf_db values (20,'D:1',3,'1')", "bad 20", 1 },
    { "insert into perf_db values (20,'D',3,'1;E:2')", "its texts", 1 },
    { "insert into perf_db values (20,'D',3,'1=2')", "the text", 1 },
    { "insert into perf_db values (20,'D',3,'1'||char(10))", "0x0a", 1 },
    { "insert into perf_db values (20,'D',3,'1'||char(0)||'2')", "0x00", 1 },
    { "insert into perf_db values (20,'D',3,printf('%070000d',1))", "65536", 1 },
    { "insert into perf_db values (20,'D',99,'1')", "99", 1 },
    { "insert into perf_db values (20,'D',-3,'1')", "row -3", 1 },
    { "insert into perf_db values (20,'D',4,'1')", "row 4", 1 },
    { "insert into perf_db values (-20,'D',3,'1')", "-20", 1 },
    { "insert into perf_db values (20,'A',3,'1')", "earlier", 1 },
    { "insert into config select 7,layout,data_type,direction,spatial_dim,in_channels,in_h,in_w,"
      "in_d,fil_h,fil_w,fil_d,out_channels,batchsize,pad_h,pad_w,pad_d,conv_stride_h,"
      "conv_stride_w,conv_stride_d,dilation_h,dilation_w,dilation_d,bias,group_count from config "
      "where id = 3",
      "bad 7", 1 },
    { "update config set id = -3 where id = 3", "-3", 3 },
    { "update config set in_h = -9223372036854775808 where id = 3", "in_h", 3 },
    { "update config set in_h = 'x' where id = 3", "in_h", 3 },
    { "update config set bias = NULL where id = 3", "bias", 3 },
    { "update config set pad_d = 1.5 where id = 3", "pad_d", 3 },
    { "update config set layout = '' where id = 3", "layout", 3 },
    { "update config set layout = 'NxC' where id = 3", "'x'", 3 },
    { "update config set layout = 'N=C' where id = 3", "'='", 3 },
    { "update config set layout = 5 where id = 3; update config set direction = x'46' where id = 3",
      "direction", 3 },
    { "update config set layout = printf('%01020d',1) where id = 3", "1024", 3 },
};

TEST_F(perf_db, a_bad_row_is_reported_with_its_id_and_skipped)
{
    for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
        const char *reported = read_loose(f, damage[i].sql);
        assert_says(reported, damage[i].says);
        if (strstr(damage[i].sql, "(20,"))
            assert_says(reported, "bad 20 ");
        assert_says(reported, RECORD_5);
        if (f->bad != damage[i].bad || (damage[i].bad == 1) != (f->records == 2))
            fail_msg("%s:\n%s", damage[i].sql, reported);
        if (f->records == 2)
            assert_says(reported, RECORD_3);
    }
}

TEST(perf_db, rows_beyond_the_limit_of_a_record_are_reported)
{
    const char *reported =
        read_loose(*state, "with recursive n(i) as (select 100 union all select i + 1 from n where "
                           "i < 400) insert into perf_db select i, 'S' || i, 3, '' from n");
    assert_says(reported, "bad 354");
    assert_null(strstr(reported, "bad 353 "));
    assert_says(reported, "bad 400 ");
    reported = read_loose(*state, "insert into perf_db values (20,'D',3,printf('%040000d',1)),"
                                  "(21,'E',3,printf('%040000d',1))");
    assert_says(reported, "bad 21");
    assert_null(strstr(reported, "bad 20 "));
}

static const struct {
    const char *sql, *says;
} others[] = {
    { "drop table perf_db", "table 'perf_db'" },
    { "drop table config", "table 'config'" },
    { "alter table config drop column pad_w", "table 'config'" },
    { "alter table config drop column pad_w", "column 'pad_w'" },
    { "alter table perf_db drop column params", "column 'params'" },
    { "drop table perf_db; create view perf_db as select 1 id, 'A' solver, 3 config, '1' params",
      "table 'perf_db'" },
};

TEST_F(perf_db, a_database_without_perf_db_tables_is_refused)
{
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        unlink(f->path);
        run_sql(f->path, loose);
        run_sql(f->path, others[i].sql);
        assert_int_equal(try_read(f, f->path), KILN_CORRUPT);
        assert_int_equal(f->records, 0);
        assert_says(f->err.text, others[i].says);
    }
}

TEST_F(perf_db, a_file_that_is_not_a_database_is_refused)
{
    must(fs_replace_file(f->path, bytes_of_text("gfx906 and so on, but no database at all"), 0600,
                         &f->err),
         f->err);
    assert_int_equal(try_read(f, f->path), KILN_CORRUPT);
    unlink(f->path);
    assert_int_not_equal(try_read(f, f->path), KILN_OK);
    assert_says(f->err.text, f->path);
}

TEST_F(perf_db, the_caller_can_stop_reading_a_perf_db)
{
    read_loose(f, "");
    f->stop = true;
    assert_int_equal(try_read(f, f->path), KILN_CANCELLED);
    assert_int_equal(f->records, 1);
    run_sql(f->path, "insert into perf_db values (20,NULL,3,'1')");
    assert_int_equal(try_read(f, f->path), KILN_CANCELLED);
    assert_int_equal(f->records, 0);
}

/* A damaged page may cost records, but the reader must return and must not report a malformed
 * record. */
TEST_F(perf_db, damaged_pages_neither_crash_nor_hang_the_reader)
{
    read_loose(f, "with recursive n(i) as (select 100 union all select i + 1 from n where i < 2000)"
                  " insert into perf_db select i, 'S' || i, i % 300, '1,2,3' from n");
    BUFFER_AUTO struct buffer whole;
    buffer_init(&whole, 1u << 20);
    must(fs_read_file(f->path, 1u << 20, &whole, &f->err), f->err);
    uint64_t x = 1;
    for (unsigned i = 0; i < 300; i++) {
        BUFFER_AUTO struct buffer bad;
        buffer_init(&bad, 1u << 20);
        buffer_put(&bad, whole.data, whole.size);
        for (unsigned k = 0; k < 1 + i % 8; k++) {
            x = x * 6364136223846793005ull + 1442695040888963407ull;
            bad.data[100 + (x >> 33) % (bad.size - 100)] = (uint8_t)(x >> 24);
        }
        KILN_AUTO(fd) int fd = open(f->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
        must(fs_write_all(fd, buffer_view(&bad), &f->err), f->err);
        enum kiln_code rc = try_read(f, f->path);
        assert_true(rc == KILN_OK || rc == KILN_CORRUPT);
    }
}

static void finish(struct fixture *f)
{
    KILN_AUTO(perf_db_writer) struct perf_db_writer *writer = KILN_TAKE(f->writer);
    must(perf_db_writer_finish(writer, &f->err), f->err);
}

TEST_F(perf_db, written_records_are_read_back_with_their_ids)
{
    must(perf_db_create(f->copy, &f->writer, &f->err), f->err);
    read_loose(f, "delete from perf_db where config = 5");
    finish(f);
    must(try_read(f, f->copy), f->err);
    assert_string_equal((const char *)f->reported.data, RECORD_3 "5 " KEY("9") "=\n");
}

static enum kiln_code write_record(struct fixture *f, const char *key, const char *value,
                                   uint64_t config, const uint64_t *ids)
{
    const struct tuning_record record = {
        .key = bytes_of_text(key), .value = bytes_of_text(value), .line = config, .ids = ids
    };
    return perf_db_writer_add(f->writer, &record, &f->err);
}

TEST_F(perf_db, records_without_ids_get_the_next_ids)
{
    const uint64_t ids[] = { 70, 60 };
    must(perf_db_create(f->copy, &f->writer, &f->err), f->err);
    must(write_record(f, KEY("1"), "A:1;B:2", 9, ids), f->err);
    must(write_record(f, KEY("2"), "A:1;B:", 0, NULL), f->err);
    finish(f);
    must(try_read(f, f->copy), f->err);
    assert_string_equal((const char *)f->reported.data,
                        "9 " KEY("1") "=B:2;A:1 60 70\n"
                                      "10 " KEY("2") "=A:1;B: 71 72\n");
}

/* AMD's gfx1030_36.db has three rows with an in_h of -5. */
TEST_F(perf_db, a_negative_number_is_read_and_written)
{
    must(perf_db_create(f->copy, &f->writer, &f->err), f->err);
    read_loose(f, "update config set in_h = -5, in_w = -9223372036854775807 where id = 3");
    finish(f);
    must(try_read(f, f->copy), f->err);
    assert_int_equal(f->bad, 0);
    assert_says((const char *)f->reported.data, "3 2x64x-5x-9223372036854775807x1x3x3x");
}

TEST_F(perf_db, a_refused_record_leaves_nothing_behind)
{
    const uint64_t taken[] = { 2, 1 }, zero[] = { 0 };
    static const char *const keys[] = { "",
                                        "64-56-56-3x3-64-56-56-64-1x1-1x1-1x1-0-NCHW-FP32-F",
                                        KEY("08"),
                                        KEY("-08"),
                                        KEY("-0"),
                                        KEY("-"),
                                        KEY("99999999999999999999"),
                                        KEY("8") "x",
                                        KEY("8") "xF",
                                        "2x" KEY("8"),
                                        "2x64" };
    must(perf_db_create(f->copy, &f->writer, &f->err), f->err);
    must(write_record(f, KEY("1"), "A:1", 0, NULL), f->err);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        assert_int_equal(write_record(f, keys[i], "A:1", 0, NULL), KILN_INVALID);
    assert_int_equal(write_record(f, KEY("1"), "B:1", 0, NULL), KILN_INVALID);
    assert_says(f->err.text, "exists already");
    assert_int_equal(write_record(f, KEY("2"), "B:1", 1, NULL), KILN_INVALID);
    assert_int_equal(write_record(f, KEY("2"), "B:1;B:2", 0, NULL), KILN_INVALID);
    assert_int_equal(write_record(f, KEY("2"), "B:1;C:2", 0, taken), KILN_INVALID);
    assert_int_equal(write_record(f, KEY("2"), "B:1", 0, zero), KILN_INVALID);
    assert_int_equal(write_record(f, KEY("2"), "B", 0, NULL), KILN_INVALID);
    must(write_record(f, KEY("3"), "B:1", 0, NULL), f->err);
    finish(f);
    must(try_read(f, f->copy), f->err);
    assert_string_equal((const char *)f->reported.data,
                        "1 " KEY("1") "=A:1 1\n2 " KEY("3") "=B:1 2\n");
}

TEST_F(perf_db, an_unfinished_file_is_removed_and_an_existing_one_kept)
{
    must(perf_db_create(f->copy, &f->writer, &f->err), f->err);
    must(write_record(f, KEY("1"), "A:1", 0, NULL), f->err);
    perf_db_writer_destroy(f->writer);
    f->writer = NULL;
    assert_int_not_equal(access(f->copy, F_OK), 0);
    read_loose(f, "");
    assert_int_not_equal(perf_db_create(f->path, &f->writer, &f->err), KILN_OK);
    assert_null(f->writer);
    must(try_read(f, f->path), f->err);
}

TEST_F(perf_db, equal_records_give_equal_perf_dbs)
{
    struct buffer files[2];
    for (unsigned i = 0; i < 2; i++) {
        unlink(f->copy);
        must(perf_db_create(f->copy, &f->writer, &f->err), f->err);
        must(write_record(f, KEY("1"), "A:1;B:2", 0, NULL), f->err);
        finish(f);
        buffer_init(&files[i], 1u << 20);
        must(fs_read_file(f->copy, 1u << 20, &files[i], &f->err), f->err);
    }
    assert_true(bytes_equal(buffer_view(&files[0]), buffer_view(&files[1])));
    buffer_done(&files[0]);
    buffer_done(&files[1]);
}
