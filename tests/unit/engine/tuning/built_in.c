/* SPDX-License-Identifier: MIT */
/* Tests of system databases that are built into the program. They must answer like imported
 * ones, without a copy on the disk. Measurements stay in memory. */
#include "facade_fixture.h"
#include "tests/support/built_in_item.h"

#include <stdio.h>

#define FIND_NAME DEVICE ".HIP.fdb.txt"
#define PERF_NAME DEVICE ".db.txt"
#define CONV "ConvA:1.5,0,miopenConvolutionFwdAlgoDirect"
#define FIND_TEXT KEY "=" CONV "\n" KEY_OF_BATCH(8) "=ConvB:2.5,0,miopenConvolutionFwdAlgoGEMM\n"
#define PERF_TEXT PERF_KEY "=ConvA:1,2,3;ConvB:4\n"

struct built_in {
    struct fixture facade, *f; /* |f| is |facade| */
    struct image images[2];
    struct engine_item items[2];
    struct engine_data data;
    struct tuning *imported; /* owned; the same databases, but imported */
};

/* Imports |text| and makes a built-in item |name| of the index that the import writes. */
static void add_item(struct built_in *b, const char *name, const char *index, const char *text)
{
    char path[320];
    size_t at = b->data.count++;
    must(import_text(b->f, name, TUNING_TIER_SYSTEM, ALICE, text), b->f->err);
    assert_int_equal(files(b->f, index, ".kti", path), 1);
    b->items[at] = built_in_item(&b->images[at], ENGINE_ITEM_TUNING, name, path);
}

SET_UP_OF(setup, struct built_in)
{
    const struct tuning_options options = { .data = &f->data, .records_per_uid = 2 };
    f->f = &f->facade;
    f->data.items = f->items;
    open_facade(f->f);
    add_item(f, FIND_NAME, "find", FIND_TEXT);
    add_item(f, PERF_NAME, "perf", PERF_TEXT);
    f->imported = f->f->t;
    must(tuning_open(&options, &f->f->t, f->f->notice, &f->f->err), f->f->err);
}

TEAR_DOWN_OF(teardown, struct built_in)
{
    close_tuning(f->f); /* before the images are freed */
    tuning_destroy(f->imported);
}

FIXTURE(built_in, setup, teardown);

static void open_again(struct built_in *b, const struct tuning_options *options)
{
    close_tuning(b->f);
    must(tuning_open(options, &b->f->t, b->f->notice, &b->f->err), b->f->err);
}

/* The built-in and the imported databases must give the same answer to |q|, or the same miss. */
static void assert_same(struct built_in *b, struct tuning_question *q)
{
    struct tuning_answer ours, theirs;
    enum kiln_code rc = tuning_find(b->f->t, q, &ours, &b->f->err);
    assert_int_equal(rc, tuning_find(b->imported, q, &theirs, &b->f->err));
    if (rc)
        return;
    assert_true(bytes_equal(ours.value, theirs.value));
    assert_true(bytes_equal(ours.key, theirs.key));
    assert_string_equal(ours.database_id, theirs.database_id);
    assert_int_equal(ours.tier, theirs.tier);
    assert_int_equal(ours.is_near, theirs.is_near);
}

TEST(built_in, a_built_in_database_answers_as_an_imported_one)
{
    struct built_in *b = *state;
    const char *const keys[] = { KEY, KEY_OF_BATCH(8), KEY_OF_BATCH(16) };
    assert_string_equal(find_value(b->f, ALICE, KEY), CONV);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        for (int near = 0; near < 2; near++) {
            struct tuning_question q = find_question(ALICE, keys[i]);
            q.nearest = near;
            assert_same(b, &q);
            /* As in MIOpen, the database with the nearest number of compute units answers. */
            q.database_id = "gfx90a6e";
            assert_same(b, &q);
            q.database_id = "gfx1030_36";
            assert_same(b, &q);
        }
    }
    struct tuning_question perf = perf_question(ALICE, PERF_KEY);
    assert_same(b, &perf);
    assert_string_equal(perf_value(b->f, ALICE, PERF_KEY), "ConvA:1,2,3;ConvB:4");
    assert_int_equal(tuning_stats_of(b->f->t).system_records, 3);
}

TEST(built_in, a_lookup_answers_from_the_built_in_bytes)
{
    struct built_in *b = *state;
    struct tuning_question q = find_question(ALICE, KEY);
    struct tuning_answer answer;
    must(tuning_find(b->f->t, &q, &answer, &b->f->err), b->f->err);
    assert_true(answer.value.data > b->images[0].bytes &&
                answer.value.data < b->images[0].bytes + b->images[0].size);
}

TEST(built_in, measurements_over_built_in_data_stay_in_memory_up_to_a_limit)
{
    struct built_in *b = *state;
    const char *values = "0.5,0,miopenConvolutionFwdAlgoDirect";
    must(put_find(b->f, ALICE, KEY, "ConvC", values), b->f->err);
    assert_string_equal(find_value(b->f, ALICE, KEY), "ConvC:0.5,0,miopenConvolutionFwdAlgoDirect");
    assert_string_equal(find_value(b->f, BOB, KEY), CONV);
    must(put_find(b->f, ALICE, KEY_OF_BATCH(8), "ConvC", values), b->f->err);
    assert_int_equal(put_find(b->f, ALICE, KEY_OF_BATCH(9), "ConvC", values), KILN_FULL);
    must(put_find(b->f, ALICE, KEY, "ConvD", values), b->f->err);

    const struct tuning_options options = { .data = &b->data };
    open_again(b, &options);
    assert_string_equal(find_value(b->f, ALICE, KEY), CONV);
}

TEST(built_in, measurements_in_memory_are_bounded_in_bytes)
{
    struct built_in *b = *state;
    const char *values = "0.5,0,miopenConvolutionFwdAlgoDirect";
    struct tuning_options options = { .bytes_per_uid = 1u << 20 };
    open_again(b, &options);
    must(put_find(b->f, ALICE, KEY, "ConvC", values), b->f->err);
    options.bytes_per_uid = tuning_stats_of(b->f->t).memory_bytes;
    tuning_set_limits(b->f->t, &options);
    assert_int_equal(put_find(b->f, ALICE, KEY_OF_BATCH(8), "ConvC", values), KILN_FULL);
    assert_says(b->f->err.text, "tuning_bytes_per_uid");
    const char *longer = "0.25,0,miopenConvolutionFwdAlgoDirect";
    must(put_find(b->f, ALICE, KEY, "ConvC", longer), b->f->err);
    assert_int_equal(put_find(b->f, ALICE, KEY, "ConvD", values), KILN_FULL);
    assert_string_equal(find_value(b->f, ALICE, KEY),
                        "ConvC:0.25,0,miopenConvolutionFwdAlgoDirect");
    options.bytes_per_uid = tuning_stats_of(b->f->t).memory_bytes + 1;
    tuning_set_limits(b->f->t, &options);
    must(put_find(b->f, ALICE, KEY_OF_BATCH(8), "ConvC", values), b->f->err);
}

TEST(built_in, without_anything_built_in_a_look_up_is_a_miss)
{
    struct built_in *b = *state;
    const struct tuning_options nothing = { .records_per_uid = 2 };
    open_again(b, &nothing);
    assert_string_equal(find_value(b->f, ALICE, KEY), "");
    assert_string_equal(perf_value(b->f, ALICE, PERF_KEY), "");
    must(put_find(b->f, ALICE, KEY, "ConvC", "0.5,0,miopenConvolutionFwdAlgoDirect"), b->f->err);
    assert_string_equal(find_value(b->f, ALICE, KEY), "ConvC:0.5,0,miopenConvolutionFwdAlgoDirect");
    assert_int_equal(tuning_stats_of(b->f->t).system_records, 0);
}

TEST(built_in, changes_of_a_disk_are_refused)
{
    struct built_in *b = *state;
    const struct tuning_selection all = { .tier = TUNING_TIER_USER };
    struct tuning_job *job = NULL;
    assert_int_equal(remove_selected(b->f, &all), KILN_UNSUPPORTED);
    assert_int_equal(promote(b->f, &all), KILN_UNSUPPORTED);
    assert_int_equal(import_text(b->f, FIND_NAME, TUNING_TIER_SYSTEM, ALICE, FIND_TEXT),
                     KILN_UNSUPPORTED);
    assert_int_equal(tuning_job_vacuum(b->f->t, &job, &b->f->err), KILN_UNSUPPORTED);
    const struct tuning_selection database = { .kind = TUNING_FIND,
                                               .database_id = DEVICE,
                                               .backend = "HIP" };
    assert_int_equal(tuning_job_remove_system(b->f->t, &database, &job, &b->f->err),
                     KILN_UNSUPPORTED);
    assert_says(b->f->err.text, "built into");
    must(tuning_check_db(b->f->t, &b->f->err), b->f->err);
}

TEST(built_in, without_user_and_without_system_records)
{
    struct built_in *b = *state;
    const struct tuning_options no_user = { .data = &b->data, .without_user = true };
    open_again(b, &no_user);
    assert_int_equal(put_find(b->f, ALICE, KEY, "ConvC", "0.5,0,miopenConvolutionFwdAlgoDirect"),
                     KILN_UNSUPPORTED);
    assert_says(b->f->err.text, "KILN_DISABLE_USERDB");
    assert_string_equal(find_value(b->f, ALICE, KEY), CONV);

    const struct tuning_options no_system = { .data = &b->data, .without_system = true };
    open_again(b, &no_system);
    assert_string_equal(find_value(b->f, ALICE, KEY), "");
    struct tuning_question q = find_question(ALICE, KEY_OF_BATCH(16));
    struct tuning_answer answer;
    q.nearest = true;
    assert_int_equal(tuning_find(b->f->t, &q, &answer, &b->f->err), KILN_NOT_FOUND);
}

static void check_all(struct built_in *b)
{
    struct engine_item_check check;
    while (engine_item_check_begin(&b->data, &check)) {
        while (!engine_item_check_step(&check)) {
        }
    }
}

TEST(built_in, an_item_is_checked_once_it_was_used)
{
    struct built_in *b = *state;
    check_all(b);
    assert_int_equal(b->items[0].state, ITEM_UNUSED);
    find_value(b->f, ALICE, KEY);
    check_all(b);
    assert_int_equal(b->items[0].state, ITEM_CHECKED);
    assert_int_equal(b->items[1].state, ITEM_UNUSED);
    find_value(b->f, ALICE, KEY);
    assert_int_equal(b->items[0].state, ITEM_CHECKED);
}

TEST(built_in, a_damaged_item_answers_no_more)
{
    struct built_in *b = *state;
    unsigned char *gemm = memmem(b->images[0].bytes, b->images[0].size, "GEMM", 4);
    assert_non_null(gemm);
    *gemm ^= 1;
    assert_string_equal(find_value(b->f, ALICE, KEY), CONV);
    assert_string_equal(find_value(b->f, ALICE, KEY_OF_BATCH(8)), "");
    check_all(b);
    assert_int_equal(b->items[0].state, ITEM_DAMAGED);
    assert_string_equal(find_value(b->f, ALICE, KEY), "");
    assert_string_equal(perf_value(b->f, ALICE, PERF_KEY), "ConvA:1,2,3;ConvB:4");
}

struct listed {
    unsigned count, damaged;
    char why[64];
};

static bool note_system(void *context, const struct tuning_system *system)
{
    struct listed *listed = context;
    listed->count++;
    if (system->index)
        return true;
    listed->damaged++;
    snprintf(listed->why, sizeof(listed->why), "%s", system->why);
    return true;
}

/* Opening may already detect an item's damage. Other built-in databases stay usable. */
TEST(built_in, an_item_that_cannot_be_opened_for_damage_is_a_miss)
{
    static const size_t places[] = { 0, 8, 20, 40 };
    struct built_in *b = *state;
    const struct tuning_options options = { .data = &b->data };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        b->images[0].bytes[places[i]] ^= 0xff;
        b->items[0].state = b->items[1].state = ITEM_UNUSED;
        open_again(b, &options);
        assert_int_equal(b->items[0].state, ITEM_DAMAGED);
        assert_string_equal(find_value(b->f, ALICE, KEY), "");
        assert_string_equal(perf_value(b->f, ALICE, PERF_KEY), "ConvA:1,2,3;ConvB:4");
        struct listed listed = { 0 };
        tuning_each_system(b->f->t, note_system, &listed);
        assert_int_equal(listed.count, 2);
        assert_int_equal(listed.damaged, 1);
        assert_says(listed.why, "is damaged");
        open_again(b, &options);
        assert_string_equal(find_value(b->f, ALICE, KEY), "");
        b->images[0].bytes[places[i]] ^= 0xff;
    }
    b->items[0].state = ITEM_UNUSED;
    b->images[0].size--;
    open_again(b, &options);
    assert_int_equal(b->items[0].state, ITEM_DAMAGED);
}

TEST(built_in, a_built_in_database_that_is_no_index_is_reported_at_opening)
{
    struct built_in *b = *state;
    const struct tuning_options options = { .data = &b->data };
    close_tuning(b->f);
    b->images[1].bytes[0] ^= 1;
    b->items[1].digest = sha256_of(bytes_of(b->images[1].bytes, b->images[1].size));
    assert_int_equal(tuning_open(&options, &b->f->t, b->f->notice, &b->f->err), KILN_CORRUPT);
    assert_says(b->f->err.text, PERF_NAME);
    b->images[1].bytes[0] ^= 1;
    b->items[1].digest = sha256_of(bytes_of(b->images[1].bytes, b->images[1].size));
    b->items[1].name = FIND_NAME;
    assert_int_equal(tuning_open(&options, &b->f->t, b->f->notice, &b->f->err), KILN_CORRUPT);
    b->items[1].name = "notes.txt";
    assert_int_equal(tuning_open(&options, &b->f->t, b->f->notice, &b->f->err), KILN_INVALID);
}

static unsigned count_systems(struct built_in *b)
{
    struct listed listed = { 0 };
    tuning_each_system(b->f->t, note_system, &listed);
    return listed.count;
}

/* Opens the directory, which has both databases as imported ones, together with the built-in
 * ones. */
static void open_directory_with_data(struct built_in *b)
{
    close_tuning(b->f);
    tuning_destroy(b->imported);
    b->imported = NULL;
    b->f->options.data = &b->data;
    must(reopen(b->f), b->f->err);
}

#define IMPORTED "ConvZ:1.5,0,miopenConvolutionFwdAlgoDirect"

TEST(built_in, an_imported_database_takes_precedence_over_a_built_in_one)
{
    struct built_in *b = *state;
    struct fixture *f = b->f;
    open_directory_with_data(b);
    must(import_text(f, FIND_NAME, TUNING_TIER_SYSTEM, ALICE, KEY "=" IMPORTED "\n"), f->err);
    assert_string_equal(find_value(f, ALICE, KEY), IMPORTED);
    must(reopen(f), f->err);
    assert_string_equal(find_value(f, ALICE, KEY), IMPORTED);
    struct tuning_question q = find_question(ALICE, KEY);
    q.database_id = "gfx90a6e";
    struct tuning_answer answer;
    must(tuning_find(f->t, &q, &answer, &f->err), f->err);
    assert_true(bytes_equal_text(answer.value, IMPORTED));
    assert_int_equal(count_systems(b), 2);
    assert_int_equal(tuning_stats_of(f->t).system_records, 2);
}

TEST(built_in, a_built_in_database_answers_again_when_the_imported_one_is_removed)
{
    struct built_in *b = *state;
    struct fixture *f = b->f;
    const struct tuning_selection database = { .kind = TUNING_FIND, .database_id = DEVICE };
    open_directory_with_data(b);
    for (int i = 0; i < 2; i++) {
        struct tuning_job *job = NULL;
        enum kiln_code rc = tuning_job_remove_system(f->t, &database, &job, &f->err);
        must(finish(f, rc, job), f->err);
        assert_string_equal(find_value(f, ALICE, KEY), CONV);
        must(import_text(f, FIND_NAME, TUNING_TIER_SYSTEM, ALICE, KEY "=" IMPORTED "\n"), f->err);
        assert_string_equal(find_value(f, ALICE, KEY), IMPORTED);
    }
}
