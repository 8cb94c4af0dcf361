/* SPDX-License-Identifier: MIT */
#include "common/base/list.h"

#include "tests/support/test.h"

#define NUMBERS 4

struct number { /* aligned more strictly than a list's head */
    _Alignas(32) int value;
    struct list_link link;
};

struct fixture {
    struct list list;
    /* the numbers 0, 1, 2, 3, which the list contains in this order */
    struct number numbers[NUMBERS];
};

SET_UP(make_list)
{
    list_init(&f->list);
    for (int i = 0; i < NUMBERS; i++) {
        f->numbers[i].value = i;
        list_append(&f->list, &f->numbers[i].link);
    }
}

FIXTURE(list, make_list, NULL);

/* Returns a decimal number with the values as digits: 123 for 0, 1, 2, 3. */
static int digits_of(const struct list *list)
{
    int digits = 0;
    LIST_EACH (list, const struct number, link, n)
        digits = 10 * digits + n->value;
    return digits;
}

static int digits_backwards(const struct list *list)
{
    int digits = 0;
    LIST_EACH_BACK (list, const struct number, link, n)
        digits = 10 * digits + n->value;
    return digits;
}

TEST_F(list, list_items_are_visited_in_both_directions)
{
    assert_int_equal(digits_of(&f->list), 123);
    assert_int_equal(digits_backwards(&f->list), 3210);
}

TEST_F(list, the_visited_item_may_leave_the_list)
{
    LIST_EACH (&f->list, struct number, link, n) {
        if (n->value % 2 == 0)
            list_remove(&n->link);
    }
    assert_int_equal(digits_of(&f->list), 13);
    assert_false(list_holds(&f->numbers[0].link));
}

TEST_F(list, items_are_popped_from_the_front_until_the_list_is_empty)
{
    for (int i = 0; i < NUMBERS; i++)
        assert_ptr_equal(LIST_POP(&f->list, struct number, link), &f->numbers[i]);
    assert_null(LIST_POP(&f->list, struct number, link));
    assert_true(list_is_empty(&f->list));
}

TEST_F(list, appending_a_list_moves_its_items)
{
    struct list other = LIST_INIT(other);
    list_append_all(&other, &f->list);
    assert_true(list_is_empty(&f->list));
    assert_int_equal(digits_of(&other), 123);
    list_append_all(&other, &f->list); /* |f->list| is empty */
    assert_int_equal(digits_of(&other), 123);
    list_append(&f->list, list_pop(&other));
    list_append_all(&f->list, &other);
    assert_int_equal(digits_of(&f->list), 123);
    assert_int_equal(digits_backwards(&f->list), 3210);
}

TEST_F(list, list_items_can_be_prepended_and_appended)
{
    struct number one = { .value = 9 };
    struct list empty = LIST_INIT(empty);
    assert_null(LIST_LAST(&empty, struct number, link));
    list_prepend(&f->list, &one.link);
    assert_ptr_equal(LIST_FIRST(&f->list, struct number, link), &one);
    assert_int_equal(LIST_LAST(&f->list, struct number, link)->value, 3);
    list_remove(&one.link);
    list_remove(&one.link);
    assert_int_equal(digits_of(&f->list), 123);
}
