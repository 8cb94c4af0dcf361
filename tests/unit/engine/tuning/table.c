/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "engine/tuning/tuning_table.h"

#include <stdio.h>
#include <string.h>

#define KEY_64 "64-56-56-3x3-128-56-56-64-1x1-1x1-1x1-0-NCHW-FP32-F"
#define KEY_32 "64-56-56-3x3-128-56-56-32-1x1-1x1-1x1-0-NCHW-FP32-F"
#define MANY_KEYS "64-7-7-1x1-64-7-7-%u-0x0-1x1-1x1-0-NCHW-FP32-F"
#define KEY_SMALL "64-28-28-3x3-128-28-28-32-1x1-1x1-1x1-0-NCHW-FP32-F"

/* How many allocations succeed before all others fail. If negative, all succeed. */
static int allocations_left = -1;
static unsigned failed_allocations;

WRAP(void *, calloc, size_t count, size_t size)
{
    if (allocations_left == 0) {
        failed_allocations++;
        return NULL;
    }
    if (allocations_left > 0)
        allocations_left--;
    return __real_calloc(count, size);
}

struct fixture {
    struct tuning_table *table;
    struct kiln_err err;
};

SET_UP(make_table)
{
    must(tuning_table_create(&f->table, &f->err), f->err);
    failed_allocations = 0;
}

TEAR_DOWN(drop_table)
{
    allocations_left = -1;
    tuning_table_destroy(f->table);
}

FIXTURE(table, make_table, drop_table);

static struct tuning_place host_place(const char *key)
{
    return (struct tuning_place){ .tier = TUNING_TIER_HOST,
                                  .uid = TUNING_NOBODY,
                                  .kind = TUNING_FIND,
                                  .database_id = "gfx90a68",
                                  .backend = "HIP",
                                  .key = bytes_of_text(key) };
}

static struct tuning_place user_place(uint32_t uid, const char *key)
{
    struct tuning_place place = host_place(key);
    place.tier = TUNING_TIER_USER;
    place.uid = uid;
    return place;
}

static struct tuning_row row_of(const char *id, const char *values)
{
    return (struct tuning_row){ .id = bytes_of_text(id),
                                .values = bytes_of_text(values),
                                .measured = { .origin = { .device_uuid = "GPU-1",
                                                          .device = "gfx90a",
                                                          .driver = "6.2",
                                                          .toolchain = "hiprtc",
                                                          .library = "libkiln" },
                                              .samples = 7 } };
}

static enum kiln_code put(struct fixture *f, struct tuning_place place, const char *values)
{
    struct tuning_row row = row_of("ConvA", values);
    return tuning_table_put(f->table, &place, &row, 1, &f->err);
}

static bool holds(struct fixture *f, struct tuning_place place, const char *value)
{
    const struct tuning_held *held = tuning_table_find(f->table, &place);
    return held && bytes_equal_text(held->value, value);
}

static bool count_one(void *context, const struct tuning_held *held)
{
    (void)held;
    ++*(unsigned *)context;
    return true;
}

static bool count_one_and_stop(void *context, const struct tuning_held *held)
{
    return count_one(context, held) && false;
}

static unsigned count_all(struct fixture *f)
{
    unsigned seen = 0;
    size_t cursor = 0;
    do
        assert_true(tuning_table_visit(f->table, &cursor, count_one, &seen));
    while (cursor > 0);
    return seen;
}

static unsigned count_family(struct fixture *f, struct tuning_place place, enum family family)
{
    struct family_names names;
    struct kinship kin = kinship_of_key(place.kind, place.key, &names);
    unsigned seen = 0;
    const struct tuning_relatives relatives = { &kin, family };
    tuning_table_near(f->table, &place, relatives, count_one, &seen);
    return seen;
}

TEST_F(table, holds_the_entries_of_a_record_in_order)
{
    struct tuning_place place = user_place(1000, KEY_64);
    struct tuning_row rows[] = { row_of("ConvA", "1,0,x"), row_of("ConvB", "2,64,y") };

    must(tuning_table_put(f->table, &place, rows, 2, &f->err), f->err);

    const struct tuning_held *held = tuning_table_find(f->table, &place);
    assert_non_null(held);
    assert_true(bytes_equal_text(held->value, "ConvA:1,0,x;ConvB:2,64,y"));
    assert_int_equal(held->row_count, 2);
    assert_true(bytes_equal_text(held->rows[1].id, "ConvB"));
    assert_true(bytes_equal_text(held->rows[1].values, "2,64,y"));
    assert_string_equal(held->rows[1].measured.origin.driver, "6.2");
    assert_int_equal(held->rows[1].measured.samples, 7);
    assert_true(bytes_equal_text(held->rows[1].place.key, KEY_64));
    assert_string_equal(held->place.database_id, "gfx90a68");
    assert_int_equal(held->kin.batch, 64);
    assert_int_equal(held->kin.volume, 56 * 56);
}

TEST_F(table, owns_copies_of_all_texts)
{
    char key[] = "key", id[] = "ConvA", database[] = "gfx1", driver[] = "6.2";
    struct tuning_place place = host_place(key);
    place.database_id = database;
    struct tuning_row row = row_of(id, "1");
    row.measured.origin.driver = driver;
    must(tuning_table_put(f->table, &place, &row, 1, &f->err), f->err);

    key[0] = id[0] = database[0] = driver[0] = '?';

    place = host_place("key");
    place.database_id = "gfx1";
    const struct tuning_held *held = tuning_table_find(f->table, &place);
    assert_non_null(held);
    assert_true(bytes_equal_text(held->value, "ConvA:1"));
    assert_string_equal(held->rows[0].measured.origin.driver, "6.2");
}

TEST_F(table, places_are_distinguished_by_each_of_their_parts)
{
    struct tuning_place places[] = { host_place("a"),    host_place("b"), user_place(1, "a"),
                                     user_place(2, "a"), host_place("a"), host_place("a"),
                                     host_place("a") };
    places[4].kind = TUNING_PERF;
    places[5].database_id = "gfx90a6e";
    places[6].backend = "OpenCL";
    const size_t count = sizeof(places) / sizeof(places[0]);
    char values[8];

    for (size_t i = 0; i < count; i++) {
        snprintf(values, sizeof(values), "%zu", i);
        must(put(f, places[i], values), f->err);
    }

    for (size_t i = 0; i < count; i++) {
        snprintf(values, sizeof(values), "ConvA:%zu", i);
        assert_true(holds(f, places[i], values));
    }
    assert_int_equal(tuning_table_count(f->table, TUNING_TIER_HOST), 5);
    assert_int_equal(tuning_table_count(f->table, TUNING_TIER_USER), 2);
    assert_int_equal(tuning_table_count(f->table, TUNING_TIER_SYSTEM), 0);
}

TEST_F(table, the_host_tier_has_one_owner)
{
    struct tuning_place place = host_place("a");
    must(put(f, place, "1"), f->err);
    place.uid = 1000;
    assert_true(holds(f, place, "ConvA:1"));
}

TEST_F(table, a_second_put_replaces_the_record)
{
    must(put(f, host_place(KEY_64), "1"), f->err);
    must(put(f, host_place(KEY_64), "2"), f->err);
    assert_true(holds(f, host_place(KEY_64), "ConvA:2"));
    assert_int_equal(tuning_table_count(f->table, TUNING_TIER_HOST), 1);
    assert_int_equal(count_family(f, host_place(KEY_64), FAMILY_BATCH), 1);
}

TEST_F(table, a_record_may_be_made_of_texts_in_the_table)
{
    struct tuning_place place = host_place(KEY_64);
    must(put(f, place, "1"), f->err);
    const struct tuning_held *held = tuning_table_find(f->table, &place);

    must(tuning_table_put(f->table, &held->place, held->rows, held->row_count, &f->err), f->err);

    assert_true(holds(f, place, "ConvA:1"));
}

/* Returns the size of a table whose only record was removed. Such a table keeps its hash
 * buckets. */
static uint64_t bytes_of_an_emptied_table(struct fixture *f)
{
    struct tuning_place place = user_place(1000, KEY_64);
    must(put(f, place, "1"), f->err);
    must(tuning_table_put(f->table, &place, NULL, 0, &f->err), f->err);
    return tuning_table_bytes(f->table);
}

TEST_F(table, a_put_without_rows_removes_the_record)
{
    uint64_t empty = bytes_of_an_emptied_table(f);
    struct tuning_place place = host_place(KEY_64);
    must(put(f, place, "1"), f->err);
    assert_true(tuning_table_bytes(f->table) > empty);

    must(tuning_table_put(f->table, &place, NULL, 0, &f->err), f->err);

    assert_null(tuning_table_find(f->table, &place));
    assert_int_equal(count_family(f, place, FAMILY_SPATIAL), 0);
    assert_int_equal(tuning_table_count(f->table, TUNING_TIER_HOST), 0);
    assert_int_equal(tuning_table_bytes(f->table), empty);
    must(tuning_table_put(f->table, &place, NULL, 0, &f->err), f->err);
}

TEST_F(table, unused_texts_are_freed)
{
    struct tuning_place place = host_place("a");
    must(put(f, place, "1"), f->err);
    uint64_t bytes = tuning_table_bytes(f->table);
    for (unsigned i = 0; i < 1000; i++) {
        char driver[16];
        snprintf(driver, sizeof(driver), "6.2.%03u", i);
        struct tuning_row row = row_of("ConvA", "1");
        row.measured.origin.driver = driver;
        must(tuning_table_put(f->table, &place, &row, 1, &f->err), f->err);
    }
    must(put(f, place, "1"), f->err);
    assert_int_equal(tuning_table_bytes(f->table), bytes);
}

TEST_F(table, refuses_records_of_the_system_tier)
{
    struct tuning_place place = host_place("a");
    place.tier = TUNING_TIER_SYSTEM;
    assert_int_equal(put(f, place, "1"), KILN_INVALID);
    assert_says(f->err.text, "tiers");
}

TEST_F(table, finds_relatives_within_a_tier_and_an_owner)
{
    must(put(f, user_place(1, KEY_64), "1"), f->err);
    must(put(f, user_place(1, KEY_32), "2"), f->err);
    must(put(f, user_place(1, KEY_SMALL), "3"), f->err);
    must(put(f, user_place(1, "no problem"), "4"), f->err);
    must(put(f, user_place(2, KEY_64), "5"), f->err);
    must(put(f, host_place(KEY_64), "6"), f->err);

    assert_int_equal(count_family(f, user_place(1, KEY_64), FAMILY_BATCH), 2);
    assert_int_equal(count_family(f, user_place(1, KEY_64), FAMILY_SPATIAL), 3);
    assert_int_equal(count_family(f, user_place(2, KEY_64), FAMILY_SPATIAL), 1);
    assert_int_equal(count_family(f, host_place(KEY_32), FAMILY_BATCH), 1);
    assert_int_equal(count_family(f, user_place(1, "no problem"), FAMILY_BATCH), 0);
}

#define VISITED 100 /* records that stay in the table during the whole visit */

static struct tuning_place numbered_place(unsigned number)
{
    static char key[16];
    snprintf(key, sizeof(key), "%u", number);
    return host_place(key);
}

static bool note_visit(void *context, const struct tuning_held *held)
{
    unsigned *visits = context;
    KILN_AUTO(mem) char *key = bytes_to_text(held->place.key);
    unsigned long number = strtoul(key, NULL, 10);
    if (number < VISITED)
        visits[number]++;
    return true;
}

TEST_F(table, records_are_visited_once_while_others_are_added_and_removed)
{
    unsigned visits[VISITED] = { 0 }, calls = 0;
    size_t cursor = 0;
    for (unsigned i = 0; i < VISITED; i++)
        must(put(f, numbered_place(i), "1"), f->err);

    do {
        assert_true(tuning_table_visit(f->table, &cursor, note_visit, visits));
        /* During the visit, the table grows to eight times its size. */
        for (unsigned i = 0; i < 10 && calls < VISITED; i++)
            must(put(f, numbered_place(VISITED + 10 * calls + i), "1"), f->err);
        struct tuning_place place = numbered_place(VISITED + 10 * calls);
        must(tuning_table_put(f->table, &place, NULL, 0, &f->err), f->err);
        calls++;
    } while (cursor > 0);

    for (unsigned i = 0; i < VISITED; i++)
        assert_int_equal(visits[i], 1);
    assert_true(calls > 10);
    assert_true(count_all(f) > VISITED);
}

TEST_F(table, stops_when_the_caller_has_seen_enough)
{
    must(put(f, host_place(KEY_64), "1"), f->err);
    must(put(f, host_place(KEY_32), "2"), f->err);
    struct family_names names;
    struct kinship kin = kinship_of_key(TUNING_FIND, bytes_of_text(KEY_64), &names);
    struct tuning_place place = host_place("");
    unsigned listed = 0, related = 0;

    for (size_t cursor = 0; tuning_table_visit(f->table, &cursor, count_one_and_stop, &listed);)
        assert_true(cursor > 0);
    const struct tuning_relatives relatives = { &kin, FAMILY_BATCH };
    tuning_table_near(f->table, &place, relatives, count_one_and_stop, &related);

    assert_int_equal(listed, 1);
    assert_int_equal(related, 1);
}

TEST_F(table, finds_each_of_ten_thousand_after_half_are_gone)
{
    char key[80], value[32];
    for (unsigned i = 0; i < 10000; i++) {
        snprintf(key, sizeof(key), MANY_KEYS, i + 1);
        snprintf(value, sizeof(value), "%u", i);
        must(put(f, host_place(key), value), f->err);
    }
    for (unsigned i = 0; i < 10000; i += 2) {
        snprintf(key, sizeof(key), MANY_KEYS, i + 1);
        struct tuning_place place = host_place(key);
        must(tuning_table_put(f->table, &place, NULL, 0, &f->err), f->err);
    }
    for (unsigned i = 0; i < 10000; i++) {
        snprintf(key, sizeof(key), MANY_KEYS, i + 1);
        snprintf(value, sizeof(value), "ConvA:%u", i);
        assert_int_equal(holds(f, host_place(key), value), i % 2);
    }
    assert_int_equal(count_family(f, host_place(key), FAMILY_BATCH), 5000);
}

TEST_F(table, counts_the_records_of_each_user)
{
    uint64_t bytes = bytes_of_an_emptied_table(f);
    struct tuning_place place = user_place(1000, "a");
    must(put(f, place, "1"), f->err);
    must(put(f, place, "2"), f->err);
    must(put(f, user_place(1000, "b"), "1"), f->err);
    must(put(f, user_place(1001, "a"), "1"), f->err);
    must(put(f, host_place("a"), "1"), f->err);

    assert_int_equal(tuning_table_count_of(f->table, 1000), 2);
    assert_int_equal(tuning_table_count_of(f->table, 1001), 1);
    assert_int_equal(tuning_table_count_of(f->table, 1002), 0);
    assert_int_equal(tuning_table_count_of(f->table, TUNING_NOBODY), 0);
    must(tuning_table_put(f->table, &place, NULL, 0, &f->err), f->err);
    assert_int_equal(tuning_table_count_of(f->table, 1000), 1);
    place.key = bytes_of_text("b");
    must(tuning_table_put(f->table, &place, NULL, 0, &f->err), f->err);
    assert_int_equal(tuning_table_count_of(f->table, 1000), 0);
    place = user_place(1001, "a");
    must(tuning_table_put(f->table, &place, NULL, 0, &f->err), f->err);
    place = host_place("a");
    must(tuning_table_put(f->table, &place, NULL, 0, &f->err), f->err);
    assert_int_equal(tuning_table_bytes(f->table), bytes);
}

TEST_F(table, without_memory_a_new_user_is_not_counted)
{
    must(put(f, host_place("a"), "1"), f->err);
    uint64_t bytes = tuning_table_bytes(f->table);
    allocations_left = 1;
    assert_int_equal(put(f, user_place(1000, "a"), "1"), KILN_NO_MEMORY);
    allocations_left = -1;
    assert_int_equal(tuning_table_count_of(f->table, 1000), 0);
    assert_int_equal(tuning_table_bytes(f->table), bytes);
    must(put(f, user_place(1000, "a"), "1"), f->err);
    assert_int_equal(tuning_table_count_of(f->table, 1000), 1);
}

TEST_F(table, without_memory_the_old_record_stays)
{
    must(put(f, host_place(KEY_64), "1"), f->err);
    uint64_t bytes = tuning_table_bytes(f->table);
    struct tuning_place place = host_place(KEY_64);
    struct tuning_row row = row_of("ConvB", "2");
    row.measured.origin = (struct tuning_origin){ .device_uuid = "GPU-2",
                                                  .device = "gfx942",
                                                  .driver = "6.3",
                                                  .toolchain = "clang",
                                                  .library = "MIOpen" };
    enum kiln_code rc = KILN_NO_MEMORY;
    int left = 0;
    for (; rc == KILN_NO_MEMORY; left++) {
        allocations_left = left;
        rc = tuning_table_put(f->table, &place, &row, 1, &f->err);
        allocations_left = -1;
        if (!rc)
            break;
        assert_true(holds(f, place, "ConvA:1"));
        assert_int_equal(tuning_table_bytes(f->table), bytes);
        assert_int_equal(count_family(f, place, FAMILY_BATCH), 1);
        assert_says(f->err.text, "no memory");
    }
    assert_int_equal(rc, KILN_OK);
    assert_int_equal(left, 6); /* a put allocates the record and five new texts */
    assert_true(holds(f, place, "ConvB:2"));
}

TEST_F(table, without_memory_to_grow_everything_is_found_still)
{
    char key[16];
    for (unsigned i = 0; i < 64; i++) {
        snprintf(key, sizeof(key), "%u", i);
        must(put(f, host_place(key), "1"), f->err);
    }
    allocations_left = 1; /* only the record can be allocated, so the table cannot grow */
    must(put(f, host_place("64"), "1"), f->err);
    allocations_left = -1;
    assert_int_equal(failed_allocations, 1);
    for (unsigned i = 0; i <= 64; i++) {
        snprintf(key, sizeof(key), "%u", i);
        assert_true(holds(f, host_place(key), "ConvA:1"));
    }
}

TEST_F(table, without_memory_no_table_is_made)
{
    struct tuning_table *table = NULL;
    allocations_left = 0;
    assert_int_equal(tuning_table_create(&table, &f->err), KILN_NO_MEMORY);
    allocations_left = -1;
    assert_null(table);
}
