/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "common/base/fs.h"
#include "engine/db/page_scan.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#define ROWS 150
#define RECORD_LIMIT (4u << 20)

struct fixture {
    const char *directory;
    char path[96];
    sqlite3 *db; /* owned; provides the expected rows */
    int fd;
    struct kiln_err err;
};

SET_UP(setup)
{
    f->directory = test_directory();
    snprintf(f->path, sizeof(f->path), "%s/file.db", f->directory);
    f->fd = -1;
}

TEAR_DOWN(teardown)
{
    sqlite3_close(f->db);
    fd_auto(&f->fd);
}

FIXTURE(page_scan, setup, teardown);

static void do_sql(struct fixture *f, const char *sql)
{
    if (sqlite3_exec(f->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(f->db));
}

/* Makes records of a few bytes to several pages, with numbers and ids of every width. */
static void make_file(struct fixture *f, int page_size)
{
    char sql[700];
    assert_int_equal(sqlite3_open(f->path, &f->db), SQLITE_OK);
    snprintf(sql, sizeof(sql),
             "pragma page_size = %d; pragma auto_vacuum = none; pragma synchronous = off;"
             "create table item (id integer primary key, name text, number int, content blob);"
             "create index by_name on item (name, number);"
             "with recursive n (i) as (select 1 union all select i + 1 from n limit %d) "
             "insert into item select case when i %% 10 = 9 then (1 << (i %% 62)) + i * 100000 "
             "else i end, substr(hex(randomblob(i * i)), 1, i * i), "
             "case i %% 3 when 0 then i when 1 then -(1 << (i %% 63)) else 1 << (i %% 63) end, "
             "randomblob(i * i %% 9000) from n",
             page_size, ROWS);
    do_sql(f, sql);
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
    assert_true(f->fd >= 0);
}

struct seen {
    struct fixture *f;
    struct page_scan *scan;
    sqlite3_stmt *by_id;
    size_t rows, too_long;
};

static void assert_column(sqlite3_stmt *row, int column, struct bytes bytes)
{
    assert_int_equal(bytes.size, sqlite3_column_bytes(row, column));
    if (bytes.size)
        assert_memory_equal(bytes.data, sqlite3_column_blob(row, column), bytes.size);
}

static bool compare(void *context, const struct page_cell *cell)
{
    struct seen *s = context;
    BUFFER_AUTO struct buffer record;
    buffer_init(&record, RECORD_LIMIT);
    struct page_value v[PAGE_COLUMNS_MAX];
    if (cell->columns == 5)
        return true;
    assert_true(page_scan_read(s->scan, cell, &record, v));
    sqlite3_reset(s->by_id);
    sqlite3_bind_int64(s->by_id, 1, cell->id);
    assert_int_equal(sqlite3_step(s->by_id), SQLITE_ROW);
    assert_int_equal(cell->kinds[0], PAGE_NULL);
    assert_int_equal(cell->kinds[1], PAGE_TEXT);
    assert_column(s->by_id, 0, v[1].bytes);
    assert_int_equal(v[2].number, sqlite3_column_int64(s->by_id, 1));
    assert_int_equal(cell->kinds[3], PAGE_BLOB);
    assert_column(s->by_id, 2, v[3].bytes);
    s->rows++;
    return true;
}

static struct seen scan_all(struct fixture *f)
{
    struct seen s = { .f = f };
    must(page_scan_open(f->fd, &s.scan, &f->err), f->err);
    assert_int_equal(sqlite3_prepare_v2(f->db,
                                        "select name, number, content from item where id = ?1", -1,
                                        &s.by_id, NULL),
                     SQLITE_OK);
    page_scan_each(s.scan, compare, &s);
    sqlite3_finalize(s.by_id);
    page_scan_destroy(s.scan);
    return s;
}

TEST_F(page_scan, a_scan_finds_all_rows_that_sqlite_finds)
{
    static const int sizes[] = { 512, 1024, 4096, 65536 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        make_file(f, sizes[i]);
        struct seen s = scan_all(f);
        assert_int_equal(s.rows, ROWS);
        sqlite3_close(f->db);
        close(f->fd);
        unlink(f->path);
    }
    f->db = NULL;
    f->fd = -1;
}

#define LARGE_PAGE 65536
#define POINTERS 30000
#define CELL_AT 64000

static bool count_cell(void *context, const struct page_cell *cell)
{
    size_t *count = context;
    *count += cell->columns == 1;
    return true;
}

static void put16(uint8_t *at, unsigned value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

/* Scans a file of two pages. On the second page, |pointers| pointers lead to the cell at
 * |cell_at|, and one more leads to the last cell. Returns how many cells with one column the
 * scan reports. */
static size_t cells_of_crafted(struct fixture *f, const uint8_t *cell, size_t size,
                               unsigned cell_at, unsigned pointers)
{
    static uint8_t file[2 * LARGE_PAGE];
    static const uint8_t last[] = { 4, 7, 2, 16, 'a', 'b' }; /* size, id, a blob of two bytes */
    uint8_t *page = file + LARGE_PAGE;
    size_t count = 0;
    memset(file, 0, sizeof(file));
    put16(file + 16, 1); /* pages of 64 KiB */
    page[0] = 13;        /* a leaf of a table */
    put16(page + 3, pointers + 1);
    for (unsigned i = 0; i < pointers; i++)
        put16(page + 8 + 2 * (size_t)i, cell_at);
    put16(page + 8 + 2 * (size_t)pointers, LARGE_PAGE - sizeof(last));
    memcpy(page + cell_at, cell, size);
    memcpy(page + LARGE_PAGE - sizeof(last), last, sizeof(last));
    f->fd = open(f->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fs_write_all(f->fd, bytes_of(file, sizeof(file)), &f->err), f->err);
    KILN_AUTO(page_scan) struct page_scan *scan = NULL;
    must(page_scan_open(f->fd, &scan, &f->err), f->err);
    page_scan_each(scan, count_cell, &count);
    close(f->fd);
    f->fd = -1;
    return count;
}

TEST_F(page_scan, a_page_that_repeats_one_cell_reports_at_most_its_own_size)
{
    const uint8_t cell[] = { 12, 1, 2, 32, '0', '1', '2', '3', '4', '5', '6', '7', '8', '9' };
    assert_int_equal(cells_of_crafted(f, cell, sizeof(cell), CELL_AT, 3), 4);
    assert_in_range(cells_of_crafted(f, cell, sizeof(cell), CELL_AT, POINTERS), 5000,
                    LARGE_PAGE / 12);
}

/* The cell is a record of 40 000 bytes. Its header claims to fill the whole record, and
 * describes a column of 10 bytes, for which the record has no space. */
TEST_F(page_scan, a_page_whose_long_headers_overlap_is_skipped)
{
    static uint8_t cell[40005] = { 0x82, 0xb8, 0x40, 1, 0x82, 0xb8, 0x40 };
    memset(cell + 7, 0, sizeof(cell) - 7);
    cell[7] = 32;
    assert_int_equal(cells_of_crafted(f, cell, sizeof(cell), 20000, 1), 1);
    assert_int_equal(cells_of_crafted(f, cell, sizeof(cell), 20000, 2), 0);
}

TEST_F(page_scan, free_pages_are_skipped)
{
    make_file(f, 512);
    do_sql(f, "pragma secure_delete = off; delete from item where id < 100");
    size_t left = scan_all(f).rows;
    assert_true(left > 0 && left < ROWS);
}

/* Replaces f->fd by a descriptor of a copy of the file, which tests can change while SQLite
 * reads the original. */
static void scan_copy(struct fixture *f)
{
    char path[112];
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, 8u << 20);
    must(fs_read_fd(f->fd, 8u << 20, &content, &err), err);
    snprintf(path, sizeof(path), "%s-copy", f->path);
    close(f->fd);
    f->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    must(fs_write_all(f->fd, buffer_view(&content), &err), err);
}

static void patch(struct fixture *f, off_t at, const void *bytes, size_t size)
{
    assert_int_equal(pwrite(f->fd, bytes, size, at), (ssize_t)size);
}

TEST_F(page_scan, a_wrong_free_list_hides_no_row)
{
    make_file(f, 4096);
    scan_copy(f);
    patch(f, 32, "\0\0\0\2\0\0\0\7", 8); /* the free list begins at a page of the table */
    assert_int_equal(scan_all(f).rows, ROWS);
}

TEST_F(page_scan, a_damaged_file_header_hides_no_row)
{
    make_file(f, 4096);
    scan_copy(f);
    patch(f, 0, "damage damage damage damage damage damage damage damage damage", 62);
    assert_int_equal(scan_all(f).rows, ROWS);
}

static bool count(void *context, const struct page_cell *cell)
{
    (void)cell;
    return ++*(int *)context < 5;
}

TEST_F(page_scan, a_listing_stops_when_its_callback_says_so)
{
    int cells = 0;
    make_file(f, 4096);
    KILN_AUTO(page_scan) struct page_scan *scan = NULL;
    must(page_scan_open(f->fd, &scan, &f->err), f->err);
    page_scan_each(scan, count, &cells);
    assert_int_equal(cells, 5);
}

/* Reads the record of each cell. The test reads the same records again and again. A scan would do
 * so, too, if the records of a crafted file overlapped. */
static bool read_again(void *context, const struct page_cell *cell)
{
    struct seen *s = context;
    BUFFER_AUTO struct buffer record;
    buffer_init(&record, RECORD_LIMIT);
    struct page_value v[PAGE_COLUMNS_MAX];
    s->rows += page_scan_read(s->scan, cell, &record, v);
    return true;
}

TEST_F(page_scan, the_read_budget_is_a_few_times_the_file_size)
{
    struct seen s = { 0 };
    make_file(f, 4096);
    must(page_scan_open(f->fd, &s.scan, &f->err), f->err);
    for (int i = 0; i < 50; i++)
        page_scan_each(s.scan, read_again, &s);
    size_t before = s.rows;
    page_scan_each(s.scan, read_again, &s);
    page_scan_destroy(s.scan);
    assert_in_range(before, 4 * ROWS, 50 * ROWS);
    assert_true(s.rows < before + ROWS / 2);
}

static bool read_into_little(void *context, const struct page_cell *cell)
{
    struct seen *s = context;
    BUFFER_AUTO struct buffer record;
    buffer_init(&record, 100);
    struct page_value v[PAGE_COLUMNS_MAX];
    bool fits = cell->size <= 100;
    assert_int_equal(page_scan_read(s->scan, cell, &record, v), fits);
    s->rows += fits;
    s->too_long += !fits;
    return true;
}

TEST_F(page_scan, a_record_longer_than_the_buffer_is_not_read)
{
    struct seen s = { 0 };
    make_file(f, 4096);
    must(page_scan_open(f->fd, &s.scan, &f->err), f->err);
    page_scan_each(s.scan, read_into_little, &s);
    page_scan_destroy(s.scan);
    assert_true(s.rows > 0 && s.too_long > 0);
}

TEST_F(page_scan, random_damage_is_survived)
{
    make_file(f, 1024);
    scan_copy(f);
    off_t size = lseek(f->fd, 0, SEEK_END);
    uint32_t x = 2463534242u;
    for (int i = 0; i < 300; i++) {
        for (int k = 0; k < 20; k++) {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            uint8_t byte = (uint8_t)(x >> 9);
            patch(f, (off_t)(x % (uint32_t)size), &byte, 1);
        }
        struct seen s = { 0 };
        must(page_scan_open(f->fd, &s.scan, &f->err), f->err);
        page_scan_each(s.scan, read_again, &s);
        page_scan_destroy(s.scan);
        if (i == 0)
            assert_true(s.rows > 0);
    }
}

TEST_F(page_scan, an_empty_file_is_refused)
{
    struct page_scan *scan = NULL;
    f->fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(page_scan_open(f->fd, &scan, &f->err), KILN_CORRUPT);
    assert_null(scan);
    assert_int_equal(page_scan_open(-1, &scan, &f->err), KILN_IO);
}
