/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "common/protocol/limits.h"
#include "engine/service/tuning/tuning_progress.h"

#include <string.h>

struct fixture {
    struct tuning_progress *progress;
};

SET_UP(set_up)
{
    struct kiln_err err = KILN_ERR_INIT;
    must(tuning_progress_create(&f->progress, &err), err);
}

TEAR_DOWN(tear_down) { tuning_progress_destroy(f->progress); }

FIXTURE(tuning_progress, set_up, tear_down);

/* Adds an item with |size| bytes that JSON escapes to six characters each. */
static void add_of(struct tuning_progress *progress, size_t size)
{
    KILN_AUTO(mem) char *text = malloc(size);
    struct json *item = json_object();
    memset(text, 1, size);
    tuning_progress_set_value(item, "a", bytes_of(text, size));
    tuning_progress_add(progress, "differences", item);
}

TEST(tuning_progress, a_long_value_is_reported_by_its_beginning_and_its_size)
{
    char text[2000];
    KILN_AUTO(json) struct json *item = json_object();
    memset(text, 'x', sizeof(text));
    tuning_progress_set_value(item, "a", bytes_of(text, PROGRESS_VALUE_MAX));
    tuning_progress_set_value(item, "b", bytes_of(text, PROGRESS_VALUE_MAX + 1));
    tuning_progress_set_value(item, "c", bytes_of(NULL, 0));
    assert_int_equal(strlen(json_get_text(item, "a", "")), PROGRESS_VALUE_MAX);
    assert_string_equal(json_get_text(item, "b", "") + PROGRESS_VALUE_MAX, "... (1025 bytes)");
    assert_string_equal(json_get_text(item, "c", "?"), "");
}

TEST_F(tuning_progress, long_progress_items_are_split_over_more_frames)
{
    struct tuning_progress *progress = f->progress;
    size_t items = 0, frames = 0;
    for (int i = 0; i < 2000; i++)
        add_of(progress, PROGRESS_VALUE_MAX);
    for (struct json *frame = NULL; tuning_progress_take(progress, &frame);) {
        KILN_AUTO(mem) char *text = json_print(frame, false);
        assert_true(strlen(text) < 2u << 20);
        items += json_count(json_get(frame, "differences"));
        frames++;
        json_destroy(frame);
    }
    assert_int_equal(items, 2000);
    assert_true(frames > 2);
    assert_int_equal(tuning_progress_left_out(progress), 0);
}

TEST_F(tuning_progress, progress_beyond_the_byte_limit_is_counted)
{
    struct tuning_progress *progress = f->progress;
    for (int i = 0; i < 6000; i++)
        add_of(progress, PROGRESS_VALUE_MAX);
    uint64_t left_out = tuning_progress_left_out(progress);
    assert_true(left_out > 0 && left_out < 1000);
}

static void add_number(struct tuning_progress *progress, const char *list, unsigned number)
{
    struct json *item = json_object();
    json_set_u64(item, "line", number);
    tuning_progress_add(progress, list, item);
}

/* Each list has its own limit, so errors are reported even if the list of notes is full. */
TEST_F(tuning_progress, a_full_progress_list_takes_no_space_from_another)
{
    struct tuning_progress *progress = f->progress;
    size_t items = 0;
    for (unsigned i = 0; i < PROGRESS_ITEMS_MAX + 7; i++)
        add_number(progress, "verbatim", i);
    add_number(progress, "bad", 1);
    assert_int_equal(tuning_progress_left_out_of(progress, "verbatim"), 7);
    assert_int_equal(tuning_progress_left_out_of(progress, "bad"), 0);
    assert_int_equal(tuning_progress_left_out(progress), 7);
    for (struct json *frame = NULL; tuning_progress_take(progress, &frame);) {
        items += json_count(json_get(frame, "bad"));
        json_destroy(frame);
    }
    assert_int_equal(items, 1);
}

TEST_F(tuning_progress, alternating_progress_lists_share_few_frames)
{
    struct tuning_progress *progress = f->progress;
    size_t frames = 0, items = 0;
    for (unsigned i = 0; i < 3000; i++)
        add_number(progress, i % 2 ? "verbatim" : "bad", i);
    for (struct json *frame = NULL; tuning_progress_take(progress, &frame);) {
        items += json_count(json_get(frame, "bad")) + json_count(json_get(frame, "verbatim"));
        frames++;
        json_destroy(frame);
    }
    assert_int_equal(items, 3000);
    assert_int_equal(frames, 4);
}

TEST_F(tuning_progress, progress_after_a_frame_was_taken_goes_into_the_next_one)
{
    struct tuning_progress *progress = f->progress;
    add_number(progress, "bad", 1);
    KILN_AUTO(json) struct json *first = NULL, *frame = NULL;
    assert_true(tuning_progress_take(progress, &first));
    assert_false(tuning_progress_take(progress, &frame));
    add_number(progress, "bad", 2);
    assert_true(tuning_progress_take(progress, &frame));
    assert_int_equal(json_get_u64(json_first(json_get(frame, "bad")), "line", 0), 2);
}
