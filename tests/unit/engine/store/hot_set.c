/* SPDX-License-Identifier: MIT */
#include "engine/store/hot_set.h"

#include "engine/store/held_objects.h"
#include "store_fixture.h"

#include <fcntl.h>

#define PAGE 4096u

static struct hot_set *set_of(uint64_t limit_bytes, unsigned limit_count)
{
    struct hot_set_options options = { .limit_bytes = limit_bytes, .limit_count = limit_count };
    struct hot_set *set = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    assert_int_equal(hot_set_create(&options, &set, &err), KILN_OK);
    return set;
}

static void keep(struct hot_set *set, unsigned number, size_t size)
{
    struct digest key = key_of(number);
    struct object *object = object_of(size, number, false);
    hot_set_insert(set, &key, object);
    object_unref(object);
}

static bool has(struct hot_set *set, unsigned number)
{
    struct digest key = key_of(number);
    return hot_set_find(set, &key) != NULL;
}

TEST(plain, only_inserted_objects_are_found)
{
    struct hot_set *set = set_of(1 << 20, 100);
    keep(set, 1, 100);

    struct digest key = key_of(1);
    struct object *expected = object_of(100, 1, false);
    struct object *found = hot_set_find(set, &key);

    assert_non_null(found);
    assert_true(digest_equal(&found->digest, &expected->digest));
    assert_false(has(set, 2));
    object_unref(expected);
    hot_set_destroy(set);
}

TEST(plain, the_least_recently_used_object_is_evicted_first)
{
    struct hot_set *set = set_of(2 * PAGE, 100);
    keep(set, 1, 100);
    keep(set, 2, 100);
    assert_true(has(set, 1));

    keep(set, 3, 100);

    assert_true(has(set, 1));
    assert_false(has(set, 2));
    assert_true(has(set, 3));
    assert_int_equal(hot_set_evictions(set), 1);
    hot_set_destroy(set);
}

TEST(plain, removals_start_a_new_generation_and_evictions_do_not)
{
    struct hot_set *set = set_of(2 * PAGE, 100);
    const struct digest key = key_of(1);
    const uint64_t first = hot_set_generation(set);
    for (unsigned number = 1; number <= 3; number++)
        keep(set, number, 100);
    keep(set, 3, 100);
    assert_int_equal(hot_set_generation(set), first);

    hot_set_remove(set, &key);
    const uint64_t second = hot_set_generation(set);
    hot_set_remove_of(set, 1000);
    const uint64_t third = hot_set_generation(set);
    hot_set_clear(set);

    assert_true(first < second && second < third && third < hot_set_generation(set));
    hot_set_destroy(set);
}

TEST(plain, object_sizes_count_in_whole_pages)
{
    struct hot_set *set = set_of(1 << 20, 100);

    keep(set, 1, 1);
    keep(set, 2, PAGE + 1);

    assert_int_equal(hot_set_bytes(set), 3 * PAGE);
    assert_int_equal(hot_set_count(set), 2);
    hot_set_destroy(set);
}

TEST(plain, the_number_of_objects_stays_within_its_limit)
{
    struct hot_set *set = set_of(1 << 20, 3);

    for (unsigned i = 0; i < 10; i++)
        keep(set, i, 10);

    assert_int_equal(hot_set_count(set), 3);
    assert_int_equal(hot_set_evictions(set), 7);
    assert_true(has(set, 9));
    assert_false(has(set, 6));
    hot_set_destroy(set);
}

TEST(plain, an_object_larger_than_the_hot_set_is_not_kept)
{
    struct hot_set *set = set_of(2 * PAGE, 100);
    keep(set, 1, 10);

    keep(set, 2, 3 * PAGE);

    assert_false(has(set, 2));
    assert_true(has(set, 1));
    hot_set_destroy(set);
}

TEST(plain, inserting_a_key_again_replaces_its_object)
{
    struct hot_set *set = set_of(1 << 20, 100);
    struct digest key = key_of(1);
    struct object *newer = object_of(PAGE * 2, 99, false);
    keep(set, 1, 10);

    hot_set_insert(set, &key, newer);

    assert_ptr_equal(hot_set_find(set, &key), newer);
    assert_int_equal(hot_set_count(set), 1);
    assert_int_equal(hot_set_bytes(set), 2 * PAGE);
    object_unref(newer);
    hot_set_destroy(set);
}

TEST(plain, the_hot_set_holds_one_reference_to_each_object)
{
    struct hot_set *set = set_of(1 << 20, 100);
    struct digest key = key_of(1);
    struct object *object = object_of(10, 1, false);

    hot_set_insert(set, &key, object);
    assert_int_equal(object->references, 2);
    hot_set_insert(set, &key, object); /* the set still holds only one reference */
    assert_int_equal(object->references, 2);
    hot_set_remove(set, &key);

    assert_int_equal(object->references, 1);
    object_unref(object);
    hot_set_destroy(set);
}

TEST(plain, an_object_in_use_survives_its_eviction)
{
    struct hot_set *set = set_of(PAGE, 100);
    keep(set, 1, 10);
    struct digest key = key_of(1);
    struct object *used = object_ref(hot_set_find(set, &key));

    keep(set, 2, 10);

    assert_false(has(set, 1));
    assert_int_equal(used->references, 1);
    assert_int_equal(used->size, 10);
    object_unref(used);
    hot_set_destroy(set);
}

TEST(plain, clearing_removes_every_object)
{
    struct hot_set *set = set_of(1 << 20, 1000);
    for (unsigned i = 0; i < 300; i++) /* the hash table grows several times */
        keep(set, i, 10);
    for (unsigned i = 0; i < 256; i++)
        assert_int_equal(has(set, i), i >= 300 - 256);

    hot_set_clear(set);

    assert_int_equal(hot_set_count(set), 0);
    assert_int_equal(hot_set_bytes(set), 0);
    assert_false(has(set, 299));
    keep(set, 1, 10);
    assert_true(has(set, 1));
    hot_set_destroy(set);
}

TEST(plain, one_users_private_objects_are_removed_and_others_stay)
{
    struct hot_set *set = set_of(1 << 20, 100);
    for (unsigned i = 1; i <= 6; i++) {
        keep(set, i, 100);
        struct digest key = key_of(i);
        struct object *object = hot_set_find(set, &key);
        object->is_private = i % 3 != 0;
        object->owner = i % 3 == 1 ? 1000 : 1001; /* public objects have an owner, too */
    }
    hot_set_remove_of(set, 1000);
    assert_int_equal(hot_set_count(set), 4);
    for (unsigned i = 1; i <= 6; i++)
        assert_int_equal(has(set, i), i % 3 != 1);
    hot_set_destroy(set);
}

TEST(plain, lower_limits_evict_the_least_recently_used)
{
    struct hot_set *set = set_of(10 * PAGE, 100);
    for (unsigned i = 1; i <= 5; i++)
        keep(set, i, 100);
    assert_true(has(set, 1));
    const struct hot_set_options fewer = { .limit_bytes = 10 * PAGE, .limit_count = 3 };
    hot_set_set_limits(set, &fewer);
    assert_int_equal(hot_set_count(set), 3);
    assert_true(has(set, 1));
    assert_false(has(set, 2));
    const struct hot_set_options smaller = { .limit_bytes = 2 * PAGE, .limit_count = 100 };
    hot_set_set_limits(set, &smaller);
    assert_int_equal(hot_set_bytes(set), 2 * PAGE);
    hot_set_destroy(set);
}

TEST(plain, one_object_can_be_evicted)
{
    struct hot_set *set = set_of(1 << 20, 100);
    struct digest key = key_of(1);
    struct object *object = object_of(100, 1, false);
    assert_false(hot_set_evict(set, object));
    hot_set_insert(set, &key, object);
    keep(set, 2, 100);

    assert_true(hot_set_evict(set, object));

    assert_false(hot_set_evict(set, object));
    assert_false(has(set, 1));
    assert_true(has(set, 2));
    assert_int_equal(hot_set_evictions(set), 1);
    object_unref(object);
    hot_set_destroy(set);
}

/* Inserts |receiver|'s copy of an object. The set owns the returned copy. */
static struct object *keep_copy(struct hot_set *set, unsigned number, uint32_t receiver)
{
    struct digest key = key_of(number);
    struct object *copy = object_of(100, number, false);
    assert_true(object_reserve(copy, receiver));
    hot_set_insert_copy(set, &key, copy);
    object_unref(copy);
    return copy;
}

TEST(plain, copies_of_an_object_stay_beside_each_other_and_are_removed_together)
{
    struct hot_set *set = set_of(1 << 20, 100);
    struct digest key = key_of(1);
    struct object *one = keep_copy(set, 1, 1000), *other = keep_copy(set, 1, 1001);
    assert_ptr_equal(hot_set_find_copy(set, &key, 1000), one);
    assert_ptr_equal(hot_set_find_copy(set, &key, 1001), other);
    assert_null(hot_set_find_copy(set, &key, 1002));
    struct object *again = keep_copy(set, 1, 1000); /* replaces only that user's copy */
    assert_ptr_equal(hot_set_find_copy(set, &key, 1000), again);
    assert_int_equal(hot_set_count(set), 2);
    assert_int_equal(hot_set_bytes(set), 2 * PAGE);

    hot_set_remove(set, &key);
    assert_int_equal(hot_set_count(set), 0);
    (void)keep_copy(set, 1, 1000);
    (void)keep_copy(set, 1, 1001);
    keep(set, 1, 100);
    assert_int_equal(hot_set_count(set), 1);
    assert_null(hot_set_find_copy(set, &key, 1000));
    hot_set_destroy(set);
}

TEST(plain, removed_objects_are_dropped_in_slices)
{
    struct hot_set *set = set_of(1 << 20, 100);
    for (unsigned i = 0; i < 3; i++)
        keep(set, i, 100);
    struct digest key = key_of(0);
    int fd = hot_set_find(set, &key)->fd;
    hot_set_clear(set);
    assert_int_equal(hot_set_count(set), 0);
    assert_int_equal(hot_set_bytes(set), 0);
    assert_int_not_equal(fcntl(fd, F_GETFD), -1);
    assert_true(hot_set_drop_some(set, 0));
    assert_true(hot_set_drop_some(set, 0));
    assert_false(hot_set_drop_some(set, 0));
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_false(hot_set_drop_some(set, 0));
    hot_set_destroy(set);
}
