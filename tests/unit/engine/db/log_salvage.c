/* SPDX-License-Identifier: MIT */
#include "tests/support/child.h"
#include "tests/support/repeats.h"
#include "tests/support/test.h"
#include "tests/support/test_buffer.h"
#include "tests/support/test_files.h"

#include "common/base/bytes.h"
#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "engine/db/log_salvage.h"
#include "engine/db/snapshot.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PAGE 4096u
#define LOG_HEADER 32u
#define LOG_PAGE (24u + PAGE)
#define INDEX_HEADER 48u
#define FILE_MAX (16u << 20)
#define ROWS 40
#define FLIPS 300u

struct fixture {
    const char *directory;
    char path[96], log[112]; /* as left by a killed writer */
    char copy[96], copy_log[112], copy_index[112];
    struct buffer file, pages;
    /* index of the log (the -shm file); save() writes it only if it is not empty */
    struct buffer index;
    struct buffer whole; /* the file after SQLite's recovery */
    struct log_state state;
    struct kiln_err err;
};

SET_UP(setup)
{
    f->directory = test_directory();
    snprintf(f->path, sizeof(f->path), "%s/file.db", f->directory);
    snprintf(f->log, sizeof(f->log), "%s-wal", f->path);
    snprintf(f->copy, sizeof(f->copy), "%s/copy.db", f->directory);
    snprintf(f->copy_log, sizeof(f->copy_log), "%s-wal", f->copy);
    snprintf(f->copy_index, sizeof(f->copy_index), "%s-shm", f->copy);
    test_buffer(&f->file, FILE_MAX);
    test_buffer(&f->pages, FILE_MAX);
    test_buffer(&f->index, FILE_MAX);
    test_buffer(&f->whole, FILE_MAX);
}

FIXTURE(log_salvage, setup, NULL);

static void read_all(const char *path, struct buffer *into)
{
    struct kiln_err err = KILN_ERR_INIT;
    into->size = 0;
    must(fs_read_file(path, FILE_MAX, into, &err), err);
}

/* Arguments of write_files, which runs in a child process. The process ends without closing the
 * database, so that the log is not checkpointed. */
struct script {
    const struct fixture *fixture;
    const char *more;
};

static bool write_files(void *context)
{
    const struct script *script = context;
    sqlite3 *db = NULL;
    char sql[256];
    bool fine = sqlite3_open(script->fixture->path, &db) == SQLITE_OK &&
                sqlite3_exec(db,
                             "pragma page_size = 4096; pragma journal_mode = wal;"
                             "pragma wal_autocheckpoint = 0; pragma cache_size = 1;"
                             "create table item (id integer primary key, filling text)",
                             NULL, NULL, NULL) == SQLITE_OK;
    for (int id = 1; fine && id <= ROWS; id++) {
        snprintf(
            sql, sizeof(sql), "insert into item values (%d, hex(zeroblob(%d)) || 'item %d'); %s",
            id, 200 + id * 331 % 5000, id, id == ROWS / 4 ? "pragma wal_checkpoint(truncate)" : "");
        fine = sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
    }
    return fine && sqlite3_exec(db, script->more, NULL, NULL, NULL) == SQLITE_OK;
}

/* Makes a database that has a quarter of its rows in the file, and the others only in the log.
 * Reads the file and the log into |f|, and the result of SQLite's recovery into f->whole. */
static void make_files(struct fixture *f, const char *more)
{
    struct script script = { .fixture = f, .more = more };
    assert_true(run_in_child(write_files, &script));
    read_all(f->path, &f->file);
    read_all(f->log, &f->pages);
    must(db_snapshot(f->path, f->copy, true, &f->err), f->err);
    must(db_snapshot_merge(f->copy, &f->err), f->err);
    read_all(f->copy, &f->whole);
    db_snapshot_remove(f->copy);
}

static size_t page_count(const struct fixture *f)
{
    return (f->pages.size - LOG_HEADER) / LOG_PAGE;
}

static uint8_t *log_page(struct fixture *f, size_t at)
{
    return f->pages.data + LOG_HEADER + at * LOG_PAGE;
}

static uint32_t number_at(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static enum kiln_code save(struct fixture *f)
{
    db_snapshot_remove(f->copy);
    test_write(f->copy, buffer_view(&f->file));
    test_write(f->copy_log, buffer_view(&f->pages));
    if (f->index.size > 0)
        test_write(f->copy_index, buffer_view(&f->index));
    memset(&f->state, 0, sizeof(f->state));
    return db_snapshot_save(f->copy, &f->state, &f->err);
}

static void save_ok(struct fixture *f)
{
    must(save(f), f->err);
    assert_int_equal(access(f->copy_log, F_OK), -1);
}

/* Every page of the copy except |lost_page| must equal the same page of f->whole. Page 1 is not
 * compared: SQLite stores its change counter and the journal mode there. */
static void expect_whole_but(struct fixture *f, uint32_t lost_page)
{
    BUFFER_AUTO struct buffer saved;
    buffer_init(&saved, FILE_MAX);
    read_all(f->copy, &saved);
    assert_int_equal(saved.size, f->whole.size);
    for (uint32_t page = 2; page <= saved.size / PAGE; page++) {
        size_t at = (size_t)(page - 1) * PAGE;
        if (page != lost_page && memcmp(saved.data + at, f->whole.data + at, PAGE) != 0)
            fail_msg("page %u is another one", page);
    }
}

static int rows_of_copy(struct fixture *f)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_open_v2(f->copy, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    int rc = sqlite3_prepare_v2(db, "select count(*) from item where filling like '%item%'", -1,
                                &statement, NULL);
    int rows = -1;
    if (rc == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
        rows = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return rows;
}

static void expect_undamaged(struct fixture *f)
{
    save_ok(f);
    assert_false(f->state.damaged);
    assert_int_equal(f->state.lost, 0);
    expect_whole_but(f, 0);
}

TEST(log_salvage, an_intact_log_is_merged_by_sqlite)
{
    struct fixture *f = *state;
    make_files(f, "");
    expect_undamaged(f);
    assert_int_equal(f->state.pages, page_count(f));
    assert_int_equal(rows_of_copy(f), ROWS);
}

TEST(log_salvage, leftover_pages_of_a_restarted_log_are_not_damage)
{
    struct fixture *f = *state;
    make_files(f, "pragma wal_checkpoint(restart); insert into item values (100, 'an item')");
    expect_undamaged(f);
    assert_in_range(f->state.pages, 1, page_count(f) / 4);
    assert_int_equal(rows_of_copy(f), ROWS + 1);
}

TEST(log_salvage, pages_of_a_rolled_back_transaction_are_not_damage)
{
    struct fixture *f = *state;
    make_files(f, "begin; update item set filling = 'spoilt'; rollback;"
                  "insert into item values (100, 'an item')");
    expect_undamaged(f);
    assert_true(f->state.pages < page_count(f)); /* the log had been checkpointed */
    assert_int_equal(rows_of_copy(f), ROWS + 1);
}

TEST(log_salvage, a_file_without_a_log_has_no_state)
{
    struct fixture *f = *state;
    make_files(f, "");
    f->pages.size = 0;
    save_ok(f);
    assert_int_equal(f->state.pages, 0);
    assert_int_equal(rows_of_copy(f), ROWS / 4);
}

/* A truncated log does not show that it was longer, so the result must be that of SQLite's
 * recovery. */
TEST(log_salvage, a_truncated_log_ends_with_its_last_complete_transaction)
{
    struct fixture *f = *state;
    int latest = ROWS;
    make_files(f, "");
    for (size_t size = f->pages.size; size > 0; size = size > 3001 ? size - 3001 : 0) {
        f->pages.size = size;
        save_ok(f);
        int rows = rows_of_copy(f);
        assert_false(f->state.damaged);
        assert_in_range(rows, ROWS / 4, latest);
        latest = rows;
    }
    assert_int_equal(latest, ROWS / 4);
}

/* The writer may still change the index in the -shm file, so db_snapshot_save builds its own
 * from the log. */
TEST(log_salvage, a_stale_index_of_the_log_is_ignored)
{
    struct fixture *f = *state;
    char index[112];
    static uint8_t noise[32768];
    make_files(f, "");
    memset(noise, 0x5a, sizeof(noise));
    snprintf(index, sizeof(index), "%s-shm", f->path);
    test_write(index, bytes_of(noise, sizeof(noise)));

    must(db_snapshot(f->path, f->copy, true, &f->err), f->err);
    must(db_snapshot_save(f->copy, &f->state, &f->err), f->err);

    assert_false(f->state.damaged);
    expect_whole_but(f, 0);
    BUFFER_AUTO struct buffer after;
    buffer_init(&after, FILE_MAX);
    read_all(index, &after);
    assert_int_equal(after.size, sizeof(noise));
    assert_memory_equal(after.data, noise, sizeof(noise));
}

TEST(log_salvage, one_damaged_page_of_the_log_costs_that_page)
{
    static const unsigned places[] = { 3, 24 + 1, 24 + PAGE - 1 };
    struct fixture *f = *state;
    make_files(f, "");
    for (size_t at = 0; at + 1 < page_count(f); at++) {
        uint32_t page = number_at(log_page(f, at));
        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
            log_page(f, at)[places[i]] ^= 0x10;
            save_ok(f);
            assert_true(f->state.damaged);
            assert_int_equal(f->state.lost, 1);
            assert_int_equal(f->state.pages, page_count(f));
            expect_whole_but(f, page);
            log_page(f, at)[places[i]] ^= 0x10;
        }
    }
}

/* The checksum of a frame is computed from that of the frame before it. After a frame with a
 * damaged checksum, the next frame is lost, too. */
TEST(log_salvage, a_damaged_checksum_costs_two_pages_at_most)
{
    struct fixture *f = *state;
    make_files(f, "");
    for (size_t at = 0; at + 2 < page_count(f); at++) {
        log_page(f, at)[16] ^= 1;
        save_ok(f);
        assert_true(f->state.damaged);
        assert_int_equal(f->state.lost, 2);
        log_page(f, at)[16] ^= 1;
    }
}

TEST(log_salvage, a_damaged_end_costs_the_transaction_that_it_ends)
{
    struct fixture *f = *state;
    make_files(f, "");
    log_page(f, page_count(f) - 1)[100] ^= 1;
    save_ok(f);
    assert_true(f->state.damaged);
    assert_true(f->state.lost >= 1);
    assert_int_equal(rows_of_copy(f), ROWS - 1);
}

/* Reads the index that the killed writer left, and sets its number of frames of complete
 * transactions to |counted|. */
static void read_index(struct fixture *f, uint32_t counted)
{
    char path[112];
    snprintf(path, sizeof(path), "%s-shm", f->path);
    read_all(path, &f->index);
    for (size_t copy = 0; copy < 2; copy++)
        memcpy(f->index.data + copy * INDEX_HEADER + 16, &counted, sizeof(counted));
}

/* Returns the number of the last frame up to number |before| that ends a transaction and has the
 * salts of the log's header. */
static size_t last_end(const struct fixture *f, size_t before)
{
    size_t at = before;
    const uint8_t *p;
    do {
        assert_true(at-- > 0);
        p = f->pages.data + LOG_HEADER + at * LOG_PAGE;
    } while (number_at(p + 4) == 0 || memcmp(p + 8, f->pages.data + 16, 8) != 0);
    return at + 1;
}

/* Imitates a writer that was killed in its last transaction, after it had written the header of
 * the last frame, but not the page. */
static void unwrite_last_page(struct fixture *f, uint8_t filling)
{
    size_t end = last_end(f, page_count(f));
    read_index(f, (uint32_t)last_end(f, end - 1));
    memset(log_page(f, end - 1) + 24, filling, PAGE);
}

TEST(log_salvage, a_last_transaction_whose_last_page_was_not_written_did_not_happen)
{
    struct fixture *f = *state;
    make_files(f, "");
    unwrite_last_page(f, 0);
    save_ok(f);
    assert_false(f->state.damaged);
    assert_int_equal(rows_of_copy(f), ROWS - 1);
}

TEST(log_salvage, a_leftover_page_in_the_last_frame_is_not_damage)
{
    struct fixture *f = *state;
    make_files(f, "pragma wal_checkpoint(restart); insert into item values (100, 'an item');"
                  "insert into item values (101, 'an item')");
    size_t end = last_end(f, page_count(f));
    assert_true(end < page_count(f));
    unwrite_last_page(f, 0);
    memcpy(log_page(f, end - 1) + 24, log_page(f, end) + 24, PAGE);
    save_ok(f);
    assert_false(f->state.damaged);
    assert_int_equal(rows_of_copy(f), ROWS + 1);
}

TEST(log_salvage, a_counted_transaction_whose_last_page_is_damaged_is_lost)
{
    struct fixture *f = *state;
    make_files(f, "");
    unwrite_last_page(f, 0);
    read_index(f, (uint32_t)page_count(f));
    save_ok(f);
    assert_true(f->state.damaged);
    assert_true(f->state.lost >= 1);
}

TEST(log_salvage, an_index_that_was_being_written_or_is_of_another_log_is_ignored)
{
    struct fixture *f = *state;
    make_files(f, "");
    unwrite_last_page(f, 0);
    f->index.data[16] ^= 1;
    save_ok(f);
    assert_true(f->state.damaged);
    f->index.data[16] ^= 1;
    f->index.data[32] ^= 1;
    f->index.data[INDEX_HEADER + 32] ^= 1;
    save_ok(f);
    assert_true(f->state.damaged);
}

TEST(log_salvage, an_earlier_end_whose_page_is_zeros_is_damage)
{
    struct fixture *f = *state;
    make_files(f, "");
    size_t end = last_end(f, page_count(f) - 1);
    memset(log_page(f, end - 1) + 24, 0, PAGE);
    read_index(f, (uint32_t)page_count(f));
    save_ok(f);
    assert_true(f->state.damaged);
    assert_int_equal(f->state.lost, 1);
}

TEST(log_salvage, a_damaged_header_costs_one_page_at_most)
{
    struct fixture *f = *state;
    make_files(f, "");
    uint32_t first = number_at(log_page(f, 0));
    for (unsigned at = 0; at < LOG_HEADER; at++) {
        f->pages.data[at] ^= 1;
        save_ok(f);
        assert_true(f->state.damaged);
        assert_in_range(f->state.lost, 0, 1);
        expect_whole_but(f, f->state.lost ? first : 0);
        f->pages.data[at] ^= 1;
    }
}

TEST(log_salvage, a_lost_beginning_costs_only_its_pages)
{
    struct fixture *f = *state;
    make_files(f, "");
    memset(f->pages.data, 0, LOG_HEADER + 2 * LOG_PAGE);
    save_ok(f);
    assert_true(f->state.damaged);
    /* the two overwritten frames, and the third, whose checksum is computed from the second's */
    assert_int_equal(f->state.lost, 3);
}

TEST(log_salvage, all_pages_of_a_random_log_are_lost)
{
    struct fixture *f = *state;
    make_files(f, "");
    memset(f->pages.data, 0x5a, f->pages.size);
    save_ok(f);
    assert_true(f->state.damaged);
    assert_int_equal(f->state.pages, page_count(f));
    assert_int_equal(f->state.lost, page_count(f));
    assert_int_equal(rows_of_copy(f), ROWS / 4);
}

TEST(log_salvage, a_log_repairs_a_file_that_sqlite_rejects)
{
    struct fixture *f = *state;
    make_files(f, "create table other (id)");
    memset(f->file.data, 0, PAGE);
    save_ok(f);
    assert_false(f->state.damaged);
    expect_whole_but(f, 0);
}

TEST_F(log_salvage, a_file_that_is_no_database_and_has_no_log_is_refused)
{
    buffer_put(&f->file, "this is a text, which is longer than nothing", 40);
    buffer_put(&f->pages, "and this one is not a log, though there is enough of it", 50);
    assert_int_equal(save(f), KILN_CORRUPT);
    assert_says(f->err.text, "copy.db");
}

/* Gives frame |at| the checksum that SQLite computes on little-endian machines. */
static void seal(struct fixture *f, size_t at)
{
    uint8_t *p = log_page(f, at), *before = at ? log_page(f, at - 1) + 16 : f->pages.data + 24;
    uint32_t sum[2] = { number_at(before), number_at(before + 4) };
    for (size_t i = 0; i < LOG_PAGE; i += i == 0 ? 24 : 8) {
        const uint8_t *w = p + i;
        sum[0] +=
            ((uint32_t)w[3] << 24 | (uint32_t)w[2] << 16 | (uint32_t)w[1] << 8 | w[0]) + sum[1];
        sum[1] +=
            ((uint32_t)w[7] << 24 | (uint32_t)w[6] << 16 | (uint32_t)w[5] << 8 | w[4]) + sum[0];
    }
    for (unsigned i = 0; i < 8; i++)
        p[16 + i] = (uint8_t)(sum[i / 4] >> (24 - 8 * (i % 4)));
}

TEST(log_salvage, a_log_that_claims_a_giant_file_is_refused)
{
    struct fixture *f = *state;
    make_files(f, "");
    size_t last = page_count(f) - 1;
    seal(f, last);
    save_ok(f);
    assert_false(f->state.damaged);

    memset(log_page(f, last) + 4, 0x7f, 4);
    seal(f, last);
    log_page(f, 1)[100] ^= 1;

    assert_int_equal(save(f), KILN_CORRUPT);
    assert_says(f->err.text, "write-ahead log");
    struct stat seen;
    assert_int_equal(stat(f->copy, &seen), 0);
    assert_true((size_t)seen.st_size <= f->whole.size);
}

/* Every page of the copy must equal a page of the file or of the log. */
static void expect_known_pages(struct fixture *f)
{
    BUFFER_AUTO struct buffer saved;
    buffer_init(&saved, FILE_MAX);
    read_all(f->copy, &saved);
    assert_true(saved.size <= f->whole.size);
    for (size_t at = PAGE; at + PAGE <= saved.size; at += PAGE) {
        bool known =
            at + PAGE <= f->file.size && memcmp(saved.data + at, f->file.data + at, PAGE) == 0;
        for (size_t i = 0; !known && i < page_count(f); i++)
            known = memcmp(saved.data + at, log_page(f, i) + 24, PAGE) == 0;
        static const uint8_t nothing[PAGE];
        assert_true(known || memcmp(saved.data + at, nothing, PAGE) == 0);
    }
}

TEST(log_salvage, no_flipped_bit_creates_a_page_that_never_existed)
{
    struct fixture *f = *state;
    const unsigned flips = test_repeats(FLIPS);
    uint64_t random = 88172645463325252u;
    size_t damaged = 0;
    make_files(f, "");
    for (unsigned i = 0; i < flips; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        uint64_t bit = random % (f->pages.size * 8);
        uint8_t mask = (uint8_t)(1u << (bit % 8));
        f->pages.data[bit / 8] ^= mask;
        save_ok(f);
        damaged += f->state.damaged;
        f->pages.data[bit / 8] ^= mask;
        expect_known_pages(f);
    }
    assert_true(damaged > flips * 9 / 10);
}
