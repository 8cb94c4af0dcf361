/* SPDX-License-Identifier: MIT */
/* What is told goes out in frames that the protocol has room for. */
#include "tests/support/test.h"

#include "common/limits.h"
#include "engine/service/tuning/tuning_news.h"

#include <string.h>

static int setup(void **state)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning_news *news = NULL;
    must(tuning_news_create(&news, &err), err);
    *state = news;
    return 0;
}

static int teardown(void **state)
{
    tuning_news_destroy(*state);
    return 0;
}

FIXTURE(tuning_news, setup, teardown);

/* Bytes that JSON writes six times as long. */
static void add_of(struct tuning_news *news, size_t size)
{
    KILN_AUTO(mem) char *text = malloc(size);
    struct json *item = json_object();
    memset(text, 1, size);
    tuning_news_set_value(item, "a", bytes_of(text, size));
    tuning_news_add(news, "differences", item);
}

TEST(tuning_news, a_long_value_is_told_by_its_beginning_and_its_size)
{
    char text[2000];
    KILN_AUTO(json) struct json *item = json_object();
    memset(text, 'x', sizeof(text));
    tuning_news_set_value(item, "a", bytes_of(text, NEWS_VALUE_MOST));
    tuning_news_set_value(item, "b", bytes_of(text, NEWS_VALUE_MOST + 1));
    tuning_news_set_value(item, "c", bytes_of(NULL, 0));
    assert_int_equal(strlen(json_get_text(item, "a", "")), NEWS_VALUE_MOST);
    assert_string_equal(json_get_text(item, "b", "") + NEWS_VALUE_MOST, "... (1025 bytes)");
    assert_string_equal(json_get_text(item, "c", "?"), "");
}

TEST(tuning_news, items_of_many_bytes_go_in_more_frames_than_short_ones)
{
    struct tuning_news *news = *state;
    size_t items = 0, frames = 0;
    for (int i = 0; i < 2000; i++)
        add_of(news, NEWS_VALUE_MOST);
    for (struct json *frame = tuning_news_take(news); frame; frame = tuning_news_take(news)) {
        KILN_AUTO(mem) char *text = json_print(frame, false);
        assert_true(strlen(text) < 2u << 20);
        items += json_count(json_get(frame, "differences"));
        frames++;
        json_destroy(frame);
    }
    assert_int_equal(items, 2000);
    assert_true(frames > 2);
    assert_int_equal(tuning_news_left_out(news), 0);
}

TEST(tuning_news, more_bytes_than_are_kept_are_counted)
{
    struct tuning_news *news = *state;
    for (int i = 0; i < 6000; i++)
        add_of(news, NEWS_VALUE_MOST);
    uint64_t left_out = tuning_news_left_out(news);
    assert_true(left_out > 0 && left_out < 1000);
}

static void add_number(struct tuning_news *news, const char *list, unsigned number)
{
    struct json *item = json_object();
    json_set_u64(item, "line", number);
    tuning_news_add(news, list, item);
}

/* What is merely worth knowing leaves room for what is wrong. */
TEST(tuning_news, a_list_that_is_full_takes_no_room_from_another)
{
    struct tuning_news *news = *state;
    size_t items = 0;
    for (unsigned i = 0; i < NEWS_MOST + 7; i++)
        add_number(news, "verbatim", i);
    add_number(news, "bad", 1);
    assert_int_equal(tuning_news_left_out_of(news, "verbatim"), 7);
    assert_int_equal(tuning_news_left_out_of(news, "bad"), 0);
    assert_int_equal(tuning_news_left_out(news), 7);
    for (struct json *frame = tuning_news_take(news); frame; frame = tuning_news_take(news)) {
        items += json_count(json_get(frame, "bad"));
        json_destroy(frame);
    }
    assert_int_equal(items, 1);
}

TEST(tuning_news, lists_that_take_turns_go_in_few_frames)
{
    struct tuning_news *news = *state;
    size_t frames = 0, items = 0;
    for (unsigned i = 0; i < 3000; i++)
        add_number(news, i % 2 ? "verbatim" : "bad", i);
    for (struct json *frame = tuning_news_take(news); frame; frame = tuning_news_take(news)) {
        items += json_count(json_get(frame, "bad")) + json_count(json_get(frame, "verbatim"));
        frames++;
        json_destroy(frame);
    }
    assert_int_equal(items, 3000);
    assert_int_equal(frames, 4);
}

TEST(tuning_news, what_comes_after_a_frame_was_taken_goes_in_another)
{
    struct tuning_news *news = *state;
    add_number(news, "bad", 1);
    json_destroy(tuning_news_take(news));
    assert_null(tuning_news_take(news));
    add_number(news, "bad", 2);
    KILN_AUTO(json) struct json *frame = tuning_news_take(news);
    assert_int_equal(json_get_u64(json_first(json_get(frame, "bad")), "line", 0), 2);
}
