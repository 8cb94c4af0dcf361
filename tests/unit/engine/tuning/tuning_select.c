/* SPDX-License-Identifier: MIT */
#include "facade_fixture.h"

#include "engine/tuning/tuning_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define OTHER "64-28-28-3x3-64-28-28-32-1x1-1x1-1x1-0-NCHW-FP32-F"
#define USER_FILE "gfx90a68.HIP.2_17_0_a82233c22.ufdb.txt"

static const struct measured usual = { .tier = TUNING_TIER_USER,
                                       .uid = ALICE,
                                       .kind = TUNING_FIND,
                                       .key = KEY,
                                       .id = "ConvA",
                                       .values = "1,64,miopenConvolutionFwdAlgoDirect",
                                       .samples = 10,
                                       .median_ms = 1,
                                       .spread_ms = 0.2,
                                       .measured_at = 1000 };

#define FASTER "0.5,0,miopenConvolutionFwdAlgoDirect"

/* The entries are for KEY, with samples. */
static void measure(struct fixture *f, uint32_t uid, const char *solver, double ms)
{
    char values[80];
    struct measured m = usual;
    snprintf(values, sizeof(values), "%g,64,miopenConvolutionFwdAlgoDirect", ms);
    m.uid = uid;
    m.id = solver;
    m.values = values;
    m.median_ms = ms;
    must(put(f, &m), f->err);
}

static const struct tuning_selection all_records = { .tier = TUNING_TIER_NONE };

TEST_F(facade, a_claim_of_one_user_is_held_until_a_second_one_has_it_too)
{
    f->promotion = (struct tuning_promotion){ .needs_two = true, .caller = THE_HOST };
    measure(f, ALICE, "ConvA", 1);
    must(promote(f, &all_records), f->err);
    assert_int_equal(f->counts.held, 1);
    assert_int_equal(f->counts.added, 0);
    assert_string_equal(find_value(f, 7, KEY), "");
    assert_string_equal(f->plan_change, "1000:  -> ConvA, held");
    assert_int_equal(f->promoters, 1);
    assert_int_equal(f->promoter.changes, 1);
    assert_int_equal(f->promoter.promoted, 0);

    measure(f, BOB, "ConvA", 1.3);
    measure(f, BOB, "ConvB", 1);
    must(promote(f, &all_records), f->err);
    assert_string_equal(find_value(f, 7, KEY), "");

    measure(f, 1002, "ConvA", 1.2); /* this third time agrees with the times of both other users */
    must(promote(f, &all_records), f->err);
    assert_int_equal(f->counts.held, 1);
    assert_int_equal(f->counts.added, 1);
    assert_says(find_value(f, 7, KEY), "ConvA:");
    assert_null(strstr(find_value(f, 7, KEY), "ConvB:"));
}

TEST_F(facade, a_named_user_and_the_promoter_need_no_second_user)
{
    const struct tuning_selection bobs = { .by_uid = true, .uid = BOB };
    f->promotion = (struct tuning_promotion){ .needs_two = true, .caller = ALICE };
    measure(f, ALICE, "ConvA", 1);
    measure(f, BOB, "ConvB", 0.5);
    must(promote(f, &all_records), f->err);
    assert_string_equal(find_value(f, 7, KEY), "ConvA:1,64,miopenConvolutionFwdAlgoDirect");

    f->promotion.needs_two = false;
    must(promote(f, &bobs), f->err);
    assert_string_equal(f->plan_change, "1001: ConvA -> ConvB");
    assert_says(find_value(f, 7, KEY), "ConvB:0.5");
}

TEST_F(facade, parameters_of_perf_need_a_second_user_with_the_same)
{
    f->promotion = (struct tuning_promotion){ .needs_two = true, .caller = THE_HOST };
    must(put_perf(f, ALICE, "ConvA", "1,2"), f->err);
    must(put_perf(f, BOB, "ConvA", "2,2"), f->err);
    must(promote(f, &all_records), f->err);
    assert_int_equal(f->counts.held, 2);
    assert_int_equal(f->counts.added, 0);

    must(put_perf(f, 1002, "ConvA", "1,2"), f->err);
    must(promote(f, &all_records), f->err);
    assert_int_equal(f->counts.held, 1);
    assert_int_equal(f->counts.added, 1);
    assert_string_equal(f->plan_change, "1002:  -> 1,2");
}

/* The entry is for PERF_KEY, with samples. */
static void measure_perf(struct fixture *f, uint32_t uid, const char *params, double ms)
{
    struct measured m = usual;
    m.uid = uid;
    m.kind = TUNING_PERF;
    m.tier = uid == THE_HOST ? TUNING_TIER_HOST : TUNING_TIER_USER;
    m.key = PERF_KEY;
    m.values = params;
    m.median_ms = ms;
    m.spread_ms = ms / 100;
    must(put(f, &m), f->err);
}

TEST_F(facade, the_same_parameters_do_not_confirm_another_time)
{
    f->promotion = (struct tuning_promotion){ .needs_two = true, .caller = THE_HOST };
    measure_perf(f, THE_HOST, "9,9", 1);
    measure_perf(f, ALICE, "1,2", 0.01); /* this false time would replace the host's parameters */
    measure_perf(f, BOB, "1,2", 20);
    must(promote(f, &all_records), f->err);
    assert_int_equal(f->counts.held, 2);
    assert_string_equal(perf_value(f, 7, PERF_KEY), "ConvA:9,9");

    must(put_perf(f, BOB, "ConvA", "1,2"), f->err); /* without a time */
    must(promote(f, &all_records), f->err);
    assert_string_equal(perf_value(f, 7, PERF_KEY), "ConvA:9,9");

    measure_perf(f, 1002, "1,2", 0.0105);
    must(promote(f, &all_records), f->err);
    assert_string_equal(perf_value(f, 7, PERF_KEY), "ConvA:1,2");
}

TEST_F(facade, slower_parameters_are_no_change_of_plans)
{
    f->promotion.needs_two = false;
    measure_perf(f, THE_HOST, "9,9", 1);
    measure_perf(f, ALICE, "1,2", 2);
    must(promote(f, &all_records), f->err);
    assert_string_equal(f->plan_change, "");
    assert_string_equal(perf_value(f, 7, PERF_KEY), "ConvA:9,9");

    measure_perf(f, BOB, "3,3", 0.5);
    must(promote(f, &all_records), f->err);
    assert_string_equal(f->plan_change, "1001: 9,9 -> 3,3");
}

TEST_F(facade, a_dry_run_of_a_promotion_changes_nothing)
{
    f->promotion.is_dry_run = true;
    measure(f, ALICE, "ConvA", 1);
    must(promote(f, &all_records), f->err);
    assert_int_equal(f->counts.added, 1);
    assert_string_equal(f->plan_change, "1000:  -> ConvA");
    assert_string_equal(find_value(f, 7, KEY), "");
    must(reopen(f), f->err);
    assert_string_equal(find_value(f, 7, KEY), "");
    assert_int_equal(undo_promotion(f), KILN_NOT_FOUND);
}

TEST_F(facade, the_last_promotion_can_be_undone_once)
{
    must(put_find(f, THE_HOST, KEY, "ConvH", "1,0,miopenConvolutionFwdAlgoDirect"), f->err);
    must(put_find(f, ALICE, KEY, "ConvA", FASTER), f->err);
    must(put_find(f, ALICE, OTHER, "ConvA", FASTER), f->err);
    must(promote(f, &all_records), f->err);
    assert_says(find_value(f, 7, KEY), "ConvA:");
    must(promote(f, &all_records), f->err);
    must(reopen(f), f->err);

    must(undo_promotion(f), f->err);

    assert_int_equal(f->counts.records, 2);
    assert_int_equal(f->counts.removed, 1);
    assert_string_equal(find_value(f, 7, KEY), "ConvH:1,0,miopenConvolutionFwdAlgoDirect");
    assert_string_equal(find_value(f, 7, OTHER), "");
    assert_says(find_value(f, ALICE, KEY), "ConvA:");
    must(reopen(f), f->err);
    assert_string_equal(find_value(f, 7, KEY), "ConvH:1,0,miopenConvolutionFwdAlgoDirect");
    assert_string_equal(find_value(f, 7, OTHER), "");
    assert_int_equal(undo_promotion(f), KILN_NOT_FOUND);
}

TEST_F(facade, undoing_a_promotion_leaves_records_that_were_changed_since)
{
    const struct tuning_selection of_host = { .tier = TUNING_TIER_HOST,
                                              .key = bytes_of_text(OTHER) };
    must(put_find(f, THE_HOST, KEY, "ConvH", "1,0,h"), f->err);
    must(put_find(f, ALICE, KEY, "ConvA", FASTER), f->err);
    must(put_find(f, ALICE, OTHER, "ConvA", FASTER), f->err);
    must(put_find(f, ALICE, KEY_OF_BATCH(7), "ConvA", FASTER), f->err);
    must(promote(f, &all_records), f->err);
    must(put_find(f, THE_HOST, KEY, "ConvNew", "0.2,0,h"), f->err);
    must(remove_selected(f, &of_host), f->err);
    must(reopen(f), f->err);

    must(undo_promotion(f), f->err);

    assert_int_equal(f->counts.records, 1);
    assert_int_equal(f->counts.removed, 1);
    assert_int_equal(f->conflicts, 2);
    assert_says(f->conflict_why, "promotion");
    assert_says(find_value(f, 7, KEY), "ConvNew:0.2");
    assert_string_equal(find_value(f, 7, OTHER), "");
    assert_string_equal(find_value(f, 7, KEY_OF_BATCH(7)), "");
    assert_int_equal(undo_promotion(f), KILN_NOT_FOUND);
}

TEST_F(facade, promoting_joins_all_users_and_leaves_their_records)
{
    struct tuning_selection all = { .tier = TUNING_TIER_NONE };
    must(put_find(f, THE_HOST, KEY, "ConvH", "1,0,h"), f->err);
    must(put_find(f, ALICE, KEY, "ConvA", "1,0,miopenConvolutionFwdAlgoDirect"), f->err);
    must(put_find(f, BOB, KEY, "ConvB", "2,0,miopenConvolutionFwdAlgoWinograd"), f->err);
    must(put_find(f, BOB, OTHER, "ConvB", "3,0,miopenConvolutionFwdAlgoWinograd"), f->err);

    must(promote(f, &all), f->err);

    assert_int_equal(f->counts.records, 3);
    assert_int_equal(f->counts.added, 1);
    assert_int_equal(f->counts.replaced, 1);
    assert_string_equal(find_value(f, 7, KEY),
                        "ConvH:1,0,h;ConvA:1,0,miopenConvolutionFwdAlgoDirect;ConvB:2,0,"
                        "miopenConvolutionFwdAlgoWinograd");
    assert_string_equal(find_value(f, 7, OTHER), "ConvB:3,0,miopenConvolutionFwdAlgoWinograd");
    assert_string_equal(find_value(f, ALICE, KEY), "ConvA:1,0,miopenConvolutionFwdAlgoDirect");
    must(reopen(f), f->err);
    assert_string_equal(find_value(f, 7, KEY),
                        "ConvH:1,0,h;ConvA:1,0,miopenConvolutionFwdAlgoDirect;ConvB:2,0,"
                        "miopenConvolutionFwdAlgoWinograd");
}

TEST_F(facade, only_selected_records_are_promoted)
{
    struct tuning_selection by_solver = { .solver = "ConvB", .by_uid = true, .uid = BOB };
    must(put_find(f, ALICE, OTHER, "ConvB", "1,0,miopenConvolutionFwdAlgoDirect"), f->err);
    must(put_find(f, BOB, KEY, "ConvA", "1,0,miopenConvolutionFwdAlgoDirect"), f->err);
    must(put_find(f, BOB, KEY, "ConvB", "2,0,miopenConvolutionFwdAlgoWinograd"), f->err);

    must(promote(f, &by_solver), f->err);

    assert_string_equal(find_value(f, 7, KEY), "ConvB:2,0,miopenConvolutionFwdAlgoWinograd");
    assert_string_equal(find_value(f, 7, OTHER), "");
}

TEST_F(facade, a_list_of_keys_is_promoted_and_removed_in_one_change)
{
    const struct tuning_key keys[] = { { TUNING_FIND, bytes_of_text(KEY) },
                                       { TUNING_PERF, bytes_of_text(PERF_KEY) },
                                       { TUNING_PERF, bytes_of_text(OTHER) } };
    struct tuning_selection listed = { .keys = keys, .key_count = 3 };
    must(put_find(f, ALICE, KEY, "ConvA", "1,0,miopenConvolutionFwdAlgoDirect"), f->err);
    must(put_find(f, ALICE, OTHER, "ConvA", "2,0,miopenConvolutionFwdAlgoDirect"), f->err);
    must(put_perf(f, ALICE, "ConvA", "5"), f->err);

    must(promote(f, &listed), f->err);
    assert_int_equal(f->counts.records, 2);
    assert_string_equal(find_value(f, 7, KEY), "ConvA:1,0,miopenConvolutionFwdAlgoDirect");
    assert_string_equal(perf_value(f, 7, PERF_KEY), "ConvA:5");
    /* the list contains OTHER, but not for the kind find */
    assert_string_equal(find_value(f, 7, OTHER), "");

    must(remove_selected(f, &listed), f->err);
    assert_int_equal(f->counts.records, 4);
    assert_string_equal(find_value(f, ALICE, KEY), "");
    assert_string_equal(perf_value(f, ALICE, PERF_KEY), "");
    assert_string_equal(find_value(f, ALICE, OTHER), "ConvA:2,0,miopenConvolutionFwdAlgoDirect");
}

TEST_F(facade, a_record_that_cannot_be_stored_does_not_keep_the_others_from_being_promoted)
{
    struct tuning_selection all = { .tier = TUNING_TIER_NONE };
    must(put_find(f, ALICE, KEY, "ConvA", "1,0,miopenConvolutionFwdAlgoDirect"), f->err);
    must(put_find(f, BOB, KEY, "ConvB", "2,0,miopenConvolutionFwdAlgoWinograd"), f->err);
    must(put_find(f, BOB, OTHER, "ConvB", "3,0,miopenConvolutionFwdAlgoWinograd"), f->err);
    struct measured bad = { .tier = TUNING_TIER_USER,
                            .uid = BOB,
                            .kind = TUNING_FIND,
                            .key = KEY,
                            .id = "ConvB",
                            .values = "2,0,miopenConvolutionFwdAlgoWinograd",
                            .samples = 5,
                            .median_ms = INFINITY };
    struct tuning_row row = row_of(&bad);
    row.place.backend = "HIP";
    must(tuning_table_put(f->t->table, &row.place, &row, 1, &f->err), f->err);

    must(promote(f, &all), f->err);

    assert_string_equal(find_value(f, 7, KEY), "ConvA:1,0,miopenConvolutionFwdAlgoDirect");
    assert_string_equal(find_value(f, 7, OTHER), "ConvB:3,0,miopenConvolutionFwdAlgoWinograd");
    assert_int_equal(f->counts.added, 2);
    assert_int_equal(f->counts.replaced, 0);
    assert_int_equal(f->conflicts, 1);
    assert_says(f->conflict_why, "omitted");
    assert_says(f->conflict_why, "user 1001");
}

static void put_some(struct fixture *f)
{
    struct measured m = usual;
    must(put(f, &m), f->err);
    m.id = "ConvB";
    m.measured_at = 2000;
    must(put(f, &m), f->err);
    m.id = "miopenConvolutionFwdAlgoDirect";
    m.values = "ConvOld,1,0,miopenConvolutionFwdAlgoDirect,<unused>";
    m.measured_at = 0;
    must(put(f, &m), f->err);
    must(put_find(f, BOB, KEY, "ConvA", "1,0,miopenConvolutionFwdAlgoDirect"), f->err);
    must(put_find(f, THE_HOST, KEY, "ConvA", "1,0,h"), f->err);
    must(put_find(f, THE_HOST, OTHER, "ConvA", "1,0,h"), f->err);
    must(put_perf(f, THE_HOST, "ConvA", "1"), f->err);
}

#define OLD_ENTRY \
    "miopenConvolutionFwdAlgoDirect:ConvOld,1,0,miopenConvolutionFwdAlgoDirect,<unused>"

TEST_F(facade, entries_are_removed_by_solver_in_either_dialect)
{
    struct tuning_selection selection = { .solver = "ConvA", .tier = TUNING_TIER_USER };
    put_some(f);

    must(remove_selected(f, &selection), f->err);

    assert_int_equal(f->counts.removed, 1);
    assert_int_equal(f->counts.replaced, 1);
    assert_int_equal(f->counts.entries, 2);
    assert_string_equal(find_value(f, ALICE, KEY),
                        "ConvB:1,64,miopenConvolutionFwdAlgoDirect;" OLD_ENTRY);
    assert_string_equal(find_value(f, BOB, KEY), "ConvA:1,0,h");
    selection.solver = "ConvOld";
    must(remove_selected(f, &selection), f->err);
    assert_string_equal(find_value(f, ALICE, KEY), "ConvB:1,64,miopenConvolutionFwdAlgoDirect");
}

TEST_F(facade, entries_are_removed_by_age_when_it_is_known)
{
    struct tuning_selection selection = { .older_than = 2000 };
    put_some(f);

    must(remove_selected(f, &selection), f->err);

    assert_string_equal(find_value(f, ALICE, KEY),
                        "ConvB:1,64,miopenConvolutionFwdAlgoDirect;" OLD_ENTRY);
    assert_string_equal(find_value(f, 7, KEY), "ConvA:1,0,h");
}

TEST_F(facade, removing_by_user_touches_only_that_users_records)
{
    struct tuning_selection selection = { .by_uid = true, .uid = ALICE };
    put_some(f);

    must(remove_selected(f, &selection), f->err);

    assert_int_equal(f->counts.removed, 1);
    assert_string_equal(find_value(f, ALICE, KEY), "ConvA:1,0,h");
    assert_string_equal(find_value(f, BOB, KEY), "ConvA:1,0,miopenConvolutionFwdAlgoDirect");
    must(reopen(f), f->err);
    assert_string_equal(find_value(f, ALICE, KEY), "ConvA:1,0,h");
    assert_string_equal(find_value(f, BOB, KEY), "ConvA:1,0,miopenConvolutionFwdAlgoDirect");
}

TEST_F(facade, records_are_removed_by_key_kind_and_device)
{
    struct tuning_selection by_key = { .tier = TUNING_TIER_HOST, .key = bytes_of_text(KEY) };
    struct tuning_selection by_kind = { .by_kind = true, .kind = TUNING_PERF };
    struct tuning_selection elsewhere = { .database_id = "gfx906_60" };
    put_some(f);

    must(remove_selected(f, &elsewhere), f->err);
    assert_int_equal(f->counts.records, 0);
    must(remove_selected(f, &by_key), f->err);
    assert_string_equal(find_value(f, 7, KEY), "");
    assert_string_equal(find_value(f, 7, OTHER), "ConvA:1,0,h");
    must(remove_selected(f, &by_kind), f->err);
    assert_string_equal(perf_value(f, 7, PERF_KEY), "");
    assert_string_equal(find_value(f, BOB, KEY), "ConvA:1,0,miopenConvolutionFwdAlgoDirect");
}

TEST_F(facade, a_file_is_merged_into_existing_records)
{
    struct measured m = usual;
    must(put(f, &m), f->err);
    must(put_find(f, ALICE, KEY, "ConvB", "2,0,miopenConvolutionFwdAlgoWinograd"), f->err);

    must(merge_text(
             f, USER_FILE, TUNING_TIER_USER, ALICE,
             KEY "=ConvA:0.1,0,miopenConvolutionFwdAlgoDirect;ConvB:1,0,"
                 "miopenConvolutionFwdAlgoWinograd;ConvC:3,0,miopenConvolutionFwdAlgoGEMM\n" OTHER
                 "=ConvA:1,0,miopenConvolutionFwdAlgoDirect\n"),
         f->err);

    /* Between a measurement and an entry without statistics, the measurement wins. Of two
     * entries without statistics, the faster one wins. */
    assert_string_equal(find_value(f, ALICE, KEY),
                        "ConvA:1,64,miopenConvolutionFwdAlgoDirect;ConvB:1,0,"
                        "miopenConvolutionFwdAlgoWinograd;ConvC:3,0,miopenConvolutionFwdAlgoGEMM");
    assert_string_equal(find_value(f, ALICE, OTHER), "ConvA:1,0,miopenConvolutionFwdAlgoDirect");
    assert_int_equal(f->conflicts, 1);
    assert_says(f->conflict_why, "ConvB");
    assert_int_equal(f->counts.added, 1);
    assert_int_equal(f->counts.replaced, 1);
}

TEST_F(facade, a_system_database_is_never_merged)
{
    assert_int_equal(merge_text(f, "gfx90a68.HIP.fdb.txt", TUNING_TIER_SYSTEM, 0,
                                "a=b:1,0,miopenConvolutionFwdAlgoGEMM\n"),
                     KILN_INVALID);
    assert_says(f->err.text, "never merged");
}
