/* SPDX-License-Identifier: MIT */
#include "engine/tuning/kin_order.h"

#include "tests/support/test.h"

#define LINKS 2000

struct fixture {
    struct kin_order order;
    struct kin_link links[LINKS];
    bool was_seen[LINKS];
};

static uint64_t random_number(void)
{
    static uint32_t x = 18;
    x = x * 1103515245u + 12345u;
    return x >> 16;
}

SET_UP(set_up)
{
    for (unsigned i = 0; i < LINKS; i++) {
        f->links[i] = (struct kin_link){ .family = random_number() % 3,
                                         .volume = 1 + random_number() % 40,
                                         .batch = 1 + random_number() % 100 };
        assert_true(kin_order_add(&f->order, &f->links[i]));
    }
}

TEAR_DOWN(tear_down)
{
    for (unsigned i = 0; i < LINKS; i++)
        kin_order_remove(&f->order, &f->links[i]);
    assert_int_equal(f->order.count, 0);
    assert_null(f->order.root);
}

FIXTURE(kin_order, set_up, tear_down);

static double ratio(uint64_t a, uint64_t b)
{
    return a > b ? (double)a / (double)b : (double)b / (double)a;
}

/* Returns a negative number if |a| is nearer to |wanted| than |b|. */
static int compare_distance(const struct kin_link *wanted, const struct kin_link *a,
                            const struct kin_link *b)
{
    double x = ratio(a->volume, wanted->volume), y = ratio(b->volume, wanted->volume);
    if (x == y) {
        x = ratio(a->batch, wanted->batch);
        y = ratio(b->batch, wanted->batch);
    }
    return (x > y) - (x < y);
}

static unsigned count_members(const struct fixture *f, uint64_t family)
{
    unsigned count = 0;
    for (unsigned i = 0; i < LINKS; i++)
        count += f->links[i].family == family;
    return count;
}

static void assert_walk_is_complete_and_in_order(struct fixture *f, const struct kin_link *wanted)
{
    struct kin_walk walk;
    const struct kin_link *last = NULL;
    unsigned seen = 0;
    kin_walk_begin(&walk, &f->order, wanted);
    for (const struct kin_link *link; (link = kin_walk_next(&walk)); seen++) {
        assert_int_equal(link->family, wanted->family);
        assert_false(f->was_seen[link - f->links]);
        f->was_seen[link - f->links] = true;
        assert_true(!last || compare_distance(wanted, last, link) <= 0);
        last = link;
    }
    assert_int_equal(seen, count_members(f, wanted->family));
    for (unsigned i = 0; i < LINKS; i++)
        f->was_seen[i] = false;
}

TEST_F(kin_order, a_walk_visits_each_member_of_a_family_once_and_the_nearest_first)
{
    for (unsigned i = 0; i < 50; i++) {
        const struct kin_link wanted = { .family = random_number() % 3,
                                         .volume = 1 + random_number() % 60,
                                         .batch = 1 + random_number() % 150 };
        assert_walk_is_complete_and_in_order(f, &wanted);
    }
}

TEST_F(kin_order, links_that_were_removed_are_not_visited)
{
    struct kin_walk walk;
    const struct kin_link wanted = { .family = 1, .volume = 10, .batch = 10 };
    for (unsigned i = 0; i < LINKS; i++) {
        if (f->links[i].family == 1)
            kin_order_remove(&f->order, &f->links[i]);
    }
    kin_walk_begin(&walk, &f->order, &wanted);
    assert_null(kin_walk_next(&walk));
}

TEST(plain, an_empty_order_has_no_members)
{
    struct kin_walk walk;
    const struct kin_order order = { 0 };
    const struct kin_link wanted = { .family = 1, .volume = 10, .batch = 10 };
    kin_walk_begin(&walk, &order, &wanted);
    assert_null(kin_walk_next(&walk));
}
