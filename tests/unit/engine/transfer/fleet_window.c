/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "engine/transfer/fleet_window.h"

#include <stdio.h>
#include <stdlib.h>

#define SIZE FLEET_WINDOW_SIZE

struct fixture {
    struct list windows;
    struct fleet_window window;
    struct fleet_request request;
    uint64_t now_ns;
};

static void name_file(struct fleet_request *request, const char *name)
{
    snprintf(request->name, sizeof(request->name), "%s", name);
}

/* There is one window: the second |SIZE| bytes of file "a". */
SET_UP(set_up)
{
    list_init(&f->windows);
    struct fleet_request *requests = calloc(1, sizeof(*requests));
    name_file(requests, "a");
    f->window.range =
        (struct fleet_range){ .requests = requests, .first = SIZE, .end = 2ull * SIZE };
    list_append(&f->windows, &f->window.link);
}

TEAR_DOWN(tear_down) { free(f->window.range.requests); }

FIXTURE(windows, set_up, tear_down);

/* Returns the size of the range that is read if |size| bytes of |name| are needed. */
static uint64_t size_read(struct fixture *f, const char *name, uint64_t first, uint64_t size)
{
    struct fleet_range range = {
        .requests = &f->request, .count = 1, .first = first, .end = first + size
    };
    name_file(&f->request, name);
    bool extends = fleet_windows_extend(&f->windows, &range);
    assert_true(range.first <= first && range.end >= first + size);
    assert_int_equal(range.end - range.first > size, extends);
    return range.end - range.first;
}

TEST_F(windows, the_first_range_of_a_file_is_extended)
{
    assert_int_equal(size_read(f, "b", 0, 100), SIZE);
    assert_int_equal(size_read(f, "b", 5000, 100), SIZE);
}

TEST_F(windows, a_range_that_continues_a_window_is_extended)
{
    assert_int_equal(size_read(f, "a", 2ull * SIZE - 50, 100), SIZE);
    assert_int_equal(size_read(f, "a", 2ull * SIZE, 100), SIZE);
    assert_int_equal(size_read(f, "a", 2ull * SIZE + FLEET_GAP_MAX, 100), SIZE);
}

TEST_F(windows, a_range_before_a_window_is_extended_to_the_window)
{
    assert_int_equal(size_read(f, "a", SIZE - 101, 100), FLEET_GAP_MAX);
    assert_int_equal(size_read(f, "a", SIZE - FLEET_GAP_MAX - 100, 100), FLEET_GAP_MAX + 100);
    f->window.range.first = 500;
    assert_int_equal(size_read(f, "a", 300, 100), 500);
}

TEST_F(windows, scattered_ranges_are_not_extended)
{
    assert_int_equal(size_read(f, "a", 2ull * SIZE + FLEET_GAP_MAX + 1, 100), 100);
    assert_int_equal(size_read(f, "a", SIZE - FLEET_GAP_MAX - 101, 100), 100);
}

TEST_F(windows, large_ranges_and_whole_files_are_not_extended)
{
    assert_int_equal(size_read(f, "b", 0, SIZE), SIZE);
    assert_int_equal(size_read(f, "b", 0, 4ull * SIZE), 4ull * SIZE);
    assert_int_equal(size_read(f, "b", 0, 0), 0);
}

/* Returns whether the window takes a request. The bytes have not come, so nothing is answered. */
static bool takes(struct fixture *f, const char *name, uint64_t offset, uint64_t size)
{
    name_file(&f->request, name);
    f->request.offset = offset;
    f->request.size = size;
    return fleet_windows_take(&f->windows, /* socket= */ -1, &f->request, f->now_ns);
}

TEST_F(windows, a_window_takes_the_requests_for_its_bytes)
{
    assert_true(takes(f, "a", SIZE, 100));
    assert_true(takes(f, "a", 2ull * SIZE - 100, 100));
    assert_false(takes(f, "a", SIZE - 1, 100));
    assert_false(takes(f, "a", 2ull * SIZE - 99, 100));
    assert_false(takes(f, "a", UINT64_MAX - 10, 100));
    assert_false(takes(f, "b", SIZE, 100));
    assert_false(takes(f, "a", SIZE, 0)); /* a whole file */
}

/* The file ended before the window. */
TEST_F(windows, a_window_takes_no_requests_for_bytes_that_did_not_come)
{
    f->window.over_ns = 1;
    f->window.body.size = 50;
    assert_false(takes(f, "a", SIZE, 100));
    assert_false(takes(f, "a", SIZE + 60, 10));
}

TEST_F(windows, a_window_whose_bytes_do_not_come_takes_no_more_requests)
{
    f->window.heard_ns = 1000;
    f->window.body.size = 50;
    f->now_ns = 1000 + FLEET_SILENCE_NS - 1;
    assert_true(takes(f, "a", SIZE + 50, 100));
    f->now_ns++;
    assert_false(takes(f, "a", SIZE + 50, 100));
}

TEST_F(windows, old_windows_are_dropped)
{
    assert_null(fleet_windows_oldest(&f->windows, FLEET_WINDOW_NS)); /* it is still being read */
    f->window.over_ns = 1;
    assert_null(fleet_windows_oldest(&f->windows, FLEET_WINDOW_NS));
    assert_ptr_equal(fleet_windows_oldest(&f->windows, FLEET_WINDOW_NS + 1), &f->window);
}

/* Adds windows until there are FLEET_WINDOWS_MAX. */
static void add_windows(struct fixture *f, struct fleet_window more[FLEET_WINDOWS_MAX - 1],
                        uint64_t over_ns)
{
    for (unsigned i = 0; i < FLEET_WINDOWS_MAX - 1; i++) {
        assert_null(fleet_windows_oldest(&f->windows, 2));
        more[i] = (struct fleet_window){ .range = f->window.range, .over_ns = over_ns };
        list_append(&f->windows, &more[i].link);
    }
}

TEST_F(windows, at_most_32_windows_are_kept)
{
    struct fleet_window more[FLEET_WINDOWS_MAX - 1];
    f->window.over_ns = 1;
    add_windows(f, more, /* over_ns= */ 2);
    assert_ptr_equal(fleet_windows_oldest(&f->windows, 2), &f->window);
    f->window.over_ns = 0; /* it is still being read */
    assert_ptr_equal(fleet_windows_oldest(&f->windows, 2), &more[0]);
}

TEST_F(windows, at_most_32_windows_are_read_at_the_same_time)
{
    struct fleet_window more[FLEET_WINDOWS_MAX - 1];
    add_windows(f, more, /* over_ns= */ 0);
    assert_null(fleet_windows_oldest(&f->windows, FLEET_WINDOW_NS));
    assert_int_equal(size_read(f, "b", 0, 100), 100);
    more[0].over_ns = 1;
    assert_int_equal(size_read(f, "b", 0, 100), SIZE);
}
