/* SPDX-License-Identifier: MIT */
/* Every record that is recovered after random damage must equal a stored one. Lost records must
 * be counted. */
#include "tests/support/test_files.h"
#include "tuning_db_fixture.h"

#include "common/base/fs.h"
#include "tests/support/repeats.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORDS 300u
#define DAMAGES 400u
#define PAGE 4096u
/* If a bit at this offset is flipped, the file looks like one of a newer kiln and is refused. */
#define USER_VERSION_AT 60u

struct found {
    bool seen[RECORDS + 1];
    unsigned count;
};

static void on_found(void *context, unsigned number, unsigned version)
{
    struct found *found = context;
    assert_in_range(number, 1, RECORDS);
    assert_int_equal(version, 1); /* version 0 was never stored */
    assert_false(found->seen[number]);
    found->seen[number] = true;
    found->count++;
}

static void fill(struct fixture *f)
{
    KILN_AUTO(tuning_change) struct tuning_change *change = NULL;
    must(tuning_change_begin(f->db, &change, &f->err), f->err);
    for (unsigned i = 1; i <= RECORDS; i++)
        must(change_one(change, i, 1, &f->err), f->err);
    must(tuning_change_commit(change, &f->err), f->err);
}

static void keep_content(struct fixture *f, struct buffer *content)
{
    close_db(f);
    buffer_init(content, 64u << 20);
    must(fs_read_file(f->file, 64u << 20, content, &f->err), f->err);
}

static void flip_bits(uint8_t *data, size_t size, unsigned *seed)
{
    unsigned count = 1 + (unsigned)rand_r(seed) % 20;
    for (unsigned i = 0; i < count; i++) {
        size_t at = (size_t)rand_r(seed) % size;
        if (at / 4 != USER_VERSION_AT / 4)
            data[at] ^= (uint8_t)(1u << (rand_r(seed) % 8));
    }
}

static void overwrite_pages(uint8_t *data, size_t size, bool with_zeros, unsigned *seed)
{
    unsigned count = 1 + (unsigned)rand_r(seed) % 3;
    for (unsigned i = 0; i < count; i++) {
        uint8_t *page = data + (size_t)rand_r(seed) % (size / PAGE) * PAGE;
        for (size_t at = 0; at < PAGE; at++)
            page[at] = with_zeros ? 0 : (uint8_t)rand_r(seed);
    }
}

static size_t damage(uint8_t *data, size_t size, unsigned kind, unsigned *seed)
{
    switch (kind % 4) {
    case 0: flip_bits(data, size, seed); return size;
    case 1: overwrite_pages(data, size, true, seed); return size;
    case 2: return (size_t)rand_r(seed) % size;
    default: overwrite_pages(data, size, false, seed); return size;
    }
}

TEST_F(tuning_db, random_damage_leaves_records_that_were_stored_and_counts_the_rest)
{
    BUFFER_AUTO struct buffer content;
    const unsigned damages = test_repeats(DAMAGES);
    unsigned seed = 4711, salvaged = 0, lost = 0, unknown = 0;
    fill(f);
    keep_content(f, &content);
    KILN_AUTO(mem) uint8_t *data = malloc(content.size);
    assert_non_null(data);

    for (unsigned i = 0; i < damages; i++) {
        struct found found = { 0 };
        memcpy(data, content.data, content.size);
        test_write(f->file, bytes_of(data, damage(data, content.size, i, &seed)));
        must(reopen(f), f->err);
        each_found(f, on_found, &found);
        if (!f->salvage.notice[0]) {
            assert_int_equal(found.count, RECORDS);
        } else {
            assert_int_equal(f->salvage.saved, found.count);
            assert_true(f->salvage.lost + found.count <= RECORDS || f->salvage.lost_unknown);
            assert_true(f->salvage.lost + found.count == RECORDS || f->salvage.lost_unknown);
            assert_int_equal(files(f, "tuning.db.damaged-"), 1);
        }
        assert_null(strchr(f->salvage.notice, '\n'));
        salvaged += f->salvage.notice[0] != '\0';
        lost += RECORDS - found.count;
        unknown += f->salvage.lost_unknown;
        close_db(f);
        fs_empty_directory(f->directory);
    }

    print_message("%u damages: %u salvaged, %u records lost of %u, %u times not known\n", damages,
                  salvaged, lost, damages * RECORDS, unknown);
    assert_true(salvaged > damages / 2 && lost > 0 && lost < damages * RECORDS / 2);
}

TEST_F(tuning_db, records_in_the_write_ahead_log_are_salvaged)
{
    BUFFER_AUTO struct buffer file, log;
    char path[200];
    snprintf(path, sizeof(path), "%s-wal", f->file);
    buffer_init(&file, 64u << 20);
    buffer_init(&log, 64u << 20);
    fill(f);
    must(fs_read_file(path, 64u << 20, &log, &f->err), f->err);
    assert_true(log.size > 100000);
    close_db(f);
    fs_empty_directory(f->directory);
    must(reopen(f), f->err);
    close_db(f);
    must(fs_read_file(f->file, 64u << 20, &file, &f->err), f->err);
    memset(file.data, 0, 50);
    test_write(f->file, buffer_view(&file));
    test_write(path, buffer_view(&log));

    must(reopen(f), f->err);

    assert_int_equal(count_found(f), RECORDS);
    assert_int_equal(f->salvage.saved, RECORDS);
    assert_int_equal(f->salvage.lost, 0);
    assert_false(f->salvage.lost_unknown);
}

TEST_F(tuning_db, a_damaged_log_loses_no_more_than_the_page_that_is_damaged)
{
    BUFFER_AUTO struct buffer file, log;
    struct found found = { 0 };
    char path[200];
    snprintf(path, sizeof(path), "%s-wal", f->file);
    buffer_init(&file, 64u << 20);
    buffer_init(&log, 64u << 20);
    for (unsigned i = 1; i <= 100; i++)
        must(put(f, i, 1), f->err);
    must(fs_read_file(path, 64u << 20, &log, &f->err), f->err);
    must(fs_read_file(f->file, 64u << 20, &file, &f->err), f->err);
    close_db(f);
    size_t used = log.size;
    while (log.data[used - 1] == 0) /* zeros follow the last commit */
        used--;
    log.data[used / 2] ^= 1;
    test_write(f->file, buffer_view(&file));
    test_write(path, buffer_view(&log));

    must(reopen(f), f->err);

    each_found(f, on_found, &found);
    assert_true(found.count >= 99); /* SQLite alone would recover about 50 */
    assert_says(f->salvage.notice, "write-ahead log");
    assert_says(f->salvage.notice, "more lost");
}

TEST_F(tuning_db, a_damaged_file_is_set_aside_and_reported)
{
    fill(f);
    close_db(f);
    test_write_text(f->file, "nonsense");

    must(reopen(f), f->err);

    assert_says(f->salvage.notice, "damaged");
    assert_says(f->salvage.notice, f->directory);
    assert_says(f->salvage.notice, "0 records");
    assert_int_equal(files(f, "tuning.db.damaged-"), 1);
    assert_int_equal(count_found(f), 0);
    assert_int_equal(put(f, 1, 1), KILN_OK);
    must(reopen(f), f->err);
    assert_string_equal(f->salvage.notice, "");
    assert_int_equal(count_found(f), 1);
}

TEST_F(tuning_db, an_emptied_file_is_damage)
{
    fill(f);
    close_db(f);
    test_write_text(f->file, "");

    must(reopen(f), f->err);

    assert_says(f->salvage.notice, "damaged");
    assert_true(f->salvage.lost_unknown);
}

TEST_F(tuning_db, a_salvage_that_was_cut_off_before_its_last_step_is_finished)
{
    char salvaged[200], log[200];
    snprintf(salvaged, sizeof(salvaged), "%s.salvaged", f->file);
    snprintf(log, sizeof(log), "%s-wal", f->file);
    fill(f);
    close_db(f);
    assert_int_equal(rename(f->file, salvaged), 0);
    test_write_text(log, "of the damaged file");

    must(reopen(f), f->err);

    assert_int_equal(count_found(f), RECORDS);
    assert_says(f->salvage.notice, "recovered copy");
    assert_int_equal(files(f, "tuning.db.salvaged"), 0);
    assert_int_equal(files(f, "tuning.db.damaged-"), 1);
}

TEST_F(tuning_db, an_interrupted_salvage_starts_again)
{
    char part[200];
    fill(f);
    close_db(f);
    static const char *const names[] = { "salvaged", "new", "new-wal", "whole" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(part, sizeof(part), "%s.%s", f->file, names[i]);
        test_write_text(part, "half");
    }

    must(reopen(f), f->err);

    assert_string_equal(f->salvage.notice, "");
    assert_int_equal(count_found(f), RECORDS);
    assert_int_equal(files(f, "tuning.db.new"), 0);
    assert_int_equal(files(f, "tuning.db.salvaged"), 0);
    assert_int_equal(files(f, "tuning.db.whole"), 0);
}

TEST_F(tuning_db, a_damaged_file_stays_if_there_is_no_space_to_salvage_it)
{
    BUFFER_AUTO struct buffer content;
    fill(f);
    keep_content(f, &content);
    memset(content.data, 0, 50);
    test_write(f->file, buffer_view(&content));

    write_fails_with = 28; /* ENOSPC */
    enum kiln_code rc = reopen(f);
    write_fails_with = 0;

    assert_int_equal(rc, KILN_FULL);
    assert_says(f->err.text, "recovering");
    assert_int_equal(files(f, "tuning.db.damaged-"), 0);
    must(reopen(f), f->err);
    assert_int_equal(count_found(f), RECORDS);
}
