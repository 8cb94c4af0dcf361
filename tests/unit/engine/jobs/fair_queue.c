/* SPDX-License-Identifier: MIT */
#include "engine/jobs/fair_queue.h"
#include "tests/support/subordinate_ranges.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define ITEMS 32

struct named_item {
    struct fair_item item; /* first member */
    char name;
};

struct fixture {
    struct fair_queue queue;
    struct named_item items[ITEMS];
    unsigned count;
    char popped[ITEMS + 1];
    struct kiln_err err;
};

SET_UP(setup)
{
    const struct fair_queue_options options = { .max = 12, .max_uid = 8, .noun = "tests" };
    fair_queue_init(&f->queue, &options);
}

TEAR_DOWN(teardown)
{
    while (fair_queue_pop(&f->queue)) {
    }
    fair_queue_done(&f->queue);
}

FIXTURE(case, setup, teardown);

static struct fair_item *item_named(struct fixture *f, char name)
{
    for (unsigned i = 0; i < f->count; i++) {
        if (f->items[i].name == name)
            return &f->items[i].item;
    }
    fail_msg("no item is called %c", name);
    return NULL;
}

static enum kiln_code push_one(struct fixture *f, uid_t uid, char name)
{
    assert_true(f->count < ITEMS);
    struct named_item *item = &f->items[f->count++];
    *item = (struct named_item){ .name = name };
    return fair_queue_push(&f->queue, uid, &item->item, &f->err);
}

static void push_each(struct fixture *f, uid_t uid, const char *names)
{
    for (; *names; names++)
        must(push_one(f, uid, *names), f->err);
}

static const char *pop_some(struct fixture *f, unsigned count)
{
    char *at = f->popped;
    while (count-- > 0) {
        struct named_item *item = (struct named_item *)fair_queue_pop(&f->queue);
        *at++ = item ? item->name : '-';
    }
    *at = '\0';
    return f->popped;
}

TEST_F(case, one_users_items_are_popped_in_order)
{
    push_each(f, 1, "abc");
    assert_string_equal(pop_some(f, 4), "abc-");
}

TEST_F(case, a_second_user_is_next_after_one_item_of_the_first)
{
    push_each(f, 1, "abc");
    push_each(f, 2, "de");
    assert_string_equal(pop_some(f, 5), "adbec");
}

TEST_F(case, the_subordinate_uids_of_one_range_are_one_user)
{
    set_subordinate_ranges("ann:100000:65536\n");
    push_each(f, 100000, "ab");
    push_each(f, 100001, "cd");
    push_each(f, 1, "ef");
    const char *popped = pop_some(f, 6);
    set_subordinate_ranges("");
    assert_string_equal(popped, "aebfcd");
}

TEST_F(case, a_user_whose_only_item_was_popped_waits_for_the_others)
{
    push_each(f, 1, "a");
    assert_string_equal(pop_some(f, 1), "a");
    push_each(f, 1, "b");
    push_each(f, 2, "c");
    assert_string_equal(pop_some(f, 2), "cb");
}

TEST_F(case, a_pause_earns_no_credit)
{
    push_each(f, 2, "x");
    assert_string_equal(pop_some(f, 1), "x");
    push_each(f, 1, "abcdef");
    assert_string_equal(pop_some(f, 4), "abcd");
    push_each(f, 2, "yz");
    assert_string_equal(pop_some(f, 4), "yezf");
}

TEST_F(case, a_user_whose_item_cost_more_than_one_unit_waits_longer)
{
    push_each(f, 1, "ab");
    push_each(f, 2, "cdef");
    assert_string_equal(pop_some(f, 1), "a");
    fair_queue_settle(&f->queue, 1, 3 * FAIR_QUEUE_UNIT);
    assert_string_equal(pop_some(f, 5), "cdebf");
}

TEST_F(case, a_settled_cost_counts_the_unit_that_was_charged_at_the_start)
{
    push_each(f, 1, "ab");
    push_each(f, 2, "cdef");
    assert_string_equal(pop_some(f, 2), "ac");
    fair_queue_settle(&f->queue, 1, 3 * FAIR_QUEUE_UNIT);
    fair_queue_settle(&f->queue, 2, FAIR_QUEUE_UNIT / 2);
    assert_string_equal(pop_some(f, 4), "debf");
}

TEST_F(case, a_queue_may_have_a_unit_of_its_own)
{
    f->queue.options.unit = 1;
    push_each(f, 1, "ab");
    push_each(f, 2, "cdef");
    assert_string_equal(pop_some(f, 1), "a");
    fair_queue_settle(&f->queue, 1, 3);
    assert_string_equal(pop_some(f, 5), "cdebf");
}

TEST_F(case, an_unlimited_push_exceeds_the_limits)
{
    assert_true(fair_queue_reserve(&f->queue, 3));
    push_each(f, 1, "abcdefgh");
    struct named_item ninth = { .name = 'i' };
    fair_queue_push_unlimited(&f->queue, 1, 3, &ninth.item);
    assert_int_equal(fair_queue_count_of(&f->queue, 1), 9);
    pop_some(f, 9);
    fair_queue_release(&f->queue, 3);
}

TEST_F(case, a_charge_is_kept_for_a_user_without_items)
{
    push_each(f, 1, "x");
    push_each(f, 2, "b");
    assert_string_equal(pop_some(f, 1), "x");
    fair_queue_settle(&f->queue, 1, 3 * FAIR_QUEUE_UNIT);
    push_each(f, 2, "cde");
    push_each(f, 1, "a");
    assert_string_equal(pop_some(f, 5), "bcdae");
}

TEST_F(case, use_of_an_idle_queue_leaves_no_debt)
{
    push_each(f, 1, "a");
    assert_string_equal(pop_some(f, 1), "a");
    fair_queue_settle(&f->queue, 1, 9 * FAIR_QUEUE_UNIT);
    push_each(f, 1, "bc");
    push_each(f, 2, "de");
    assert_string_equal(pop_some(f, 4), "bdce");
}

TEST_F(case, a_debt_lasts_while_another_item_runs)
{
    push_each(f, 1, "a");
    push_each(f, 3, "x");
    assert_string_equal(pop_some(f, 2), "ax");
    fair_queue_settle(&f->queue, 1, 9 * FAIR_QUEUE_UNIT);
    push_each(f, 1, "bc");
    push_each(f, 2, "de");
    assert_string_equal(pop_some(f, 4), "debc");
}

TEST_F(case, a_removed_item_is_not_popped)
{
    push_each(f, 1, "abc");
    assert_true(fair_queue_remove(&f->queue, item_named(f, 'b')));
    assert_false(fair_queue_remove(&f->queue, item_named(f, 'b')));
    assert_string_equal(pop_some(f, 3), "ac-");
    assert_int_equal(f->queue.count, 0);
}

TEST_F(case, a_moved_item_waits_behind_those_of_its_new_user)
{
    push_each(f, 1, "abcd");
    push_each(f, 2, "x");
    assert_true(fair_queue_is_behind(item_named(f, 'd'), 2));
    assert_false(fair_queue_is_behind(item_named(f, 'd'), 3));
    assert_true(fair_queue_move(&f->queue, item_named(f, 'd'), &f->queue, 2));
    assert_true(fair_queue_is_behind(item_named(f, 'd'), 0));
    assert_false(fair_queue_is_behind(item_named(f, 'd'), 1));
    assert_string_equal(pop_some(f, 5), "axbdc");
}

/* A user may have thousands of items. */
TEST_F(case, a_comparison_of_places_reads_few_items)
{
    const size_t size = sizeof(struct fair_item);
    struct fair_item *first = mmap(/* addr= */ NULL, size, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, /* fd= */ -1, /* offset= */ 0);
    assert_ptr_not_equal(first, MAP_FAILED);
    must(fair_queue_push(&f->queue, 1, first, &f->err), f->err);
    push_each(f, 1, "abc");
    assert_int_equal(mprotect(first, size, PROT_NONE), 0);

    assert_true(fair_queue_is_behind(item_named(f, 'c'), 1));

    assert_int_equal(mprotect(first, size, PROT_READ | PROT_WRITE), 0);
    assert_true(fair_queue_remove(&f->queue, first));
    munmap(first, size);
}

TEST_F(case, the_queue_bounds_each_user_and_all_together)
{
    push_each(f, 1, "abcdefgh");
    assert_int_equal(push_one(f, 1, 'i'), KILN_BUSY);
    assert_says(f->err.text, "user 1");
    push_each(f, 2, "jklm");
    assert_int_equal(push_one(f, 3, 'n'), KILN_BUSY);
    pop_some(f, 1);
    must(push_one(f, 3, 'o'), f->err);
}

TEST_F(case, a_limit_of_zero_bounds_nothing)
{
    f->queue.options.max = f->queue.options.max_uid = 0;
    push_each(f, 1, "abcdefghijklmnopqrst");
    assert_int_equal(fair_queue_count_of(&f->queue, 1), 20);
}

TEST_F(case, a_closed_queue_takes_nothing_and_can_be_emptied)
{
    push_each(f, 1, "ab");
    fair_queue_close(&f->queue);
    assert_int_equal(push_one(f, 1, 'c'), KILN_UNAVAILABLE);
    assert_string_equal(pop_some(f, 3), "ab-");
}

static void add_waiting(void *context, uid_t uid, unsigned waiting)
{
    ((unsigned *)context)[uid] += waiting;
}

TEST_F(case, only_users_with_waiting_items_are_visited)
{
    unsigned waiting[4] = { 0 };
    push_each(f, 1, "ab");
    push_each(f, 2, "c");
    push_each(f, 3, "d");
    assert_true(fair_queue_remove(&f->queue, item_named(f, 'c')));
    fair_queue_each_user(&f->queue, add_waiting, waiting);
    assert_int_equal(waiting[1], 2);
    assert_int_equal(waiting[2], 0);
    assert_int_equal(waiting[3], 1);
    assert_int_equal(fair_queue_count_of(&f->queue, 1), 2);
}

static bool is_allowed(void *context, const struct fair_item *item)
{
    const struct named_item *named = (const struct named_item *)item;
    return !strchr(context, named->name);
}

static char pop_unless(struct fixture *f, const char *barred)
{
    char names[ITEMS];
    snprintf(names, sizeof(names), "%s", barred);
    struct fair_item *item = fair_queue_pop_if(&f->queue, is_allowed, names);
    return item ? ((struct named_item *)item)->name : '-';
}

TEST_F(case, a_user_whose_item_may_not_start_is_passed_over)
{
    push_each(f, 1, "ab");
    push_each(f, 2, "c");
    assert_int_equal(pop_unless(f, "a"), 'c');
    assert_int_equal(pop_unless(f, "a"), '-');
    assert_int_equal(pop_unless(f, ""), 'a');
}

TEST_F(case, an_item_that_lets_others_pass_keeps_its_place)
{
    push_each(f, 1, "abc");
    item_named(f, 'a')->lets_pass = true;
    assert_int_equal(pop_unless(f, "a"), 'b');
    assert_int_equal(pop_unless(f, "ac"), '-');
    assert_string_equal(pop_some(f, 2), "ac");
}

TEST_F(case, a_user_who_was_passed_over_earns_no_credit)
{
    push_each(f, 1, "abc");
    push_each(f, 2, "defgh");
    for (int i = 0; i < 3; i++)
        pop_unless(f, "a");
    assert_string_equal(pop_some(f, 5), "agbhc");
}

TEST_F(case, an_item_out_of_turn_costs_the_other_users_nothing)
{
    push_each(f, 1, "abc");
    assert_string_equal(pop_some(f, 1), "a");
    fair_queue_settle(&f->queue, 1, 10 * FAIR_QUEUE_UNIT);
    push_each(f, 2, "de");
    fair_queue_pop_before(&f->queue, item_named(f, 'b'), fair_queue_peek_if(&f->queue, NULL, NULL));
    push_each(f, 3, "fg");
    assert_string_equal(pop_some(f, 5), "dfegc");
}

TEST_F(case, a_reservation_outlasts_the_items)
{
    assert_true(fair_queue_reserve(&f->queue, 1));
    push_each(f, 1, "a");
    push_each(f, 2, "b");
    pop_some(f, 2);
    push_each(f, 2, "c");
    pop_some(f, 1);
    for (uid_t uid = 1; uid <= 3; uid++)
        fair_queue_settle(&f->queue, uid, 0);
    assert_false(list_is_empty(&f->queue.users));
    fair_queue_release(&f->queue, 1);
    assert_true(list_is_empty(&f->queue.users));
}
