/* SPDX-License-Identifier: MIT */
#include "engine/service/fleet/fleet_blocks.h"

#include "common/base/fs.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#define DAY_S 86400u
#define ID "gfx90a68"

struct fixture {
    const char *directory;
    struct fleet_blocks blocks;
    struct kiln_err err;
};

SET_UP(set_up)
{
    f->directory = test_directory();
    must(fleet_blocks_read(f->directory, &f->blocks, &f->err), f->err);
}

TEAR_DOWN(tear_down) { fleet_blocks_done(&f->blocks); }

FIXTURE(blocks, set_up, tear_down);

static uint64_t note(struct fixture *f, unsigned part, uint8_t content, uint64_t now)
{
    const struct fleet_block block = { .database_id = ID,
                                       .part = part,
                                       .content = { { content } } };
    uint64_t time = 0;
    must(fleet_blocks_note(&f->blocks, &block, now, &time, &f->err), f->err);
    return time;
}

static void read_again(struct fixture *f)
{
    must(fleet_blocks_write(&f->blocks, f->directory, &f->err), f->err);
    fleet_blocks_done(&f->blocks);
    must(fleet_blocks_read(f->directory, &f->blocks, &f->err), f->err);
}

TEST_F(blocks, new_content_gets_a_later_time_and_the_same_content_keeps_it)
{
    assert_int_equal(note(f, 0, 1, 1000), 1000);
    assert_int_equal(note(f, 0, 1, 1005), 1000);
    assert_int_equal(note(f, 0, 2, 1005), 1005);
    assert_int_equal(note(f, 0, 1, 1005), 1006); /* in the same second */
    assert_int_equal(note(f, 0, 2, 900), 1007);  /* the clock went back */
}

TEST_F(blocks, a_time_in_the_future_is_not_kept)
{
    assert_int_equal(note(f, 0, 1, 1001 + DAY_S), 1001 + DAY_S);
    assert_int_equal(note(f, 0, 1, 1000), 1000);
}

/* The block with the earlier content is not valid while the clock is wrong, but it is valid again
 * afterwards, so it must be replaced then. */
TEST_F(blocks, a_clock_that_was_set_back_does_not_keep_an_old_block_valid)
{
    const uint64_t today = 1000 * DAY_S;
    note(f, 0, 1, today);
    assert_int_equal(note(f, 0, 2, 1000), 1000);
    read_again(f);
    assert_int_equal(note(f, 0, 2, 2000), 1000);
    assert_int_equal(note(f, 0, 2, today + 60), today + 60);
    assert_int_equal(note(f, 0, 2, today + 120), today + 60);
}

TEST_F(blocks, a_time_that_was_in_the_future_is_replaced_when_it_comes)
{
    const uint64_t wrong = 1000 * DAY_S;
    note(f, 0, 1, wrong);
    assert_int_equal(note(f, 0, 2, 1000), 1000);
    assert_int_equal(note(f, 0, 2, wrong - DAY_S - 1), 1000);
    assert_int_equal(note(f, 0, 2, wrong - DAY_S), wrong + 1);
}

TEST_F(blocks, the_file_says_which_blocks_there_were)
{
    note(f, 0, 1, 1000);
    note(f, 1, 2, 1000);
    read_again(f);
    assert_int_equal(f->blocks.count, 2);
    note(f, 0, 1, 2000);
    assert_true(f->blocks.list[0].is_current);
    assert_false(f->blocks.list[1].is_current);
    assert_int_equal(f->blocks.list[1].part, 1);
    assert_int_equal(f->blocks.list[1].time, 1000);
    assert_string_equal(f->blocks.list[1].database_id, ID);
}

TEST_F(blocks, a_host_has_at_most_4096_blocks)
{
    struct fleet_block next = { .database_id = ID, .part = FLEET_BLOCKS_MAX };
    uint64_t time = 0;
    for (unsigned part = 0; part < FLEET_BLOCKS_MAX; part++)
        note(f, part, 1, UINT64_MAX);
    read_again(f);
    assert_int_equal(f->blocks.count, FLEET_BLOCKS_MAX);
    assert_int_equal(note(f, FLEET_BLOCKS_MAX - 1, 1, UINT64_MAX), UINT64_MAX);
    assert_int_equal(fleet_blocks_note(&f->blocks, &next, 1000, &time, &f->err), KILN_FULL);
}

TEST_F(blocks, damaged_lines_are_left_out)
{
    char path[512], text[512], hex[DIGEST_HEX_SIZE];
    const struct digest content = { { 7 } };
    digest_to_hex(&content, hex);
    snprintf(path, sizeof(path), "%s/fleet-blocks", f->directory);
    snprintf(text, sizeof(text), "what\n" ID " 0 5 5 %.20s\n" ID " 3 9 9 %s\n", hex, hex);
    must(fs_replace_file(path, bytes_of_text(text), 0600, &f->err), f->err);
    must(fleet_blocks_read(f->directory, &f->blocks, &f->err), f->err);
    assert_int_equal(f->blocks.count, 1);
    assert_int_equal(f->blocks.list[0].part, 3);
    assert_int_equal(note(f, 3, 7, 100), 9);
}
