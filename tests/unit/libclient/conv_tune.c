/* SPDX-License-Identifier: MIT */
#include "common/base/fs.h"
#include "tests/support/test.h"
#include "tests/unit/libclient/conv_fixture.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TEST_F(conv, tune_finds_the_best_config_and_records_it)
{
    CONV_USE(f, conv_tunable);
    must(conv_tune(f), f->err);
    assert_string_equal(conv_at(f, 0).solver, "ConvTuned");
    assert_string_equal(conv_at(f, 0).config, "11,1");
    assert_true(fabs(conv_at(f, 0).median_ms - 1) < 1e-9);
    assert_int_equal(conv_at(f, 0).tried, CONV_SPACE);
    assert_int_equal(kiln_conv_result_trial_count(f->result), CONV_SPACE);
    const struct conv_put *p = conv_put_of(f, TUNING_PERF, "ConvTuned");
    assert_non_null(p);
    assert_string_equal(p->params, "11,1");
    assert_non_null(conv_put_of(f, TUNING_FIND, "ConvTuned"));
    assert_null(conv_put_of(f, TUNING_PERF, "ConvDirectNaive"));
    assert_string_equal(kiln_plan_config(kiln_conv_result_plan(f->result)), "11,1");
}

TEST_F(conv, wrong_and_uncompiled_configs_never_win)
{
    CONV_USE(f, conv_tunable);
    f->wrong_config = "11,1";
    f->uncompiled_config = "10,1";
    must(conv_tune(f), f->err);
    assert_string_equal(conv_at(f, 0).config, "12,1");
    assert_int_equal(conv_trials_in(f, KILN_CONV_WRONG), 1);
    assert_int_equal(conv_trials_in(f, KILN_CONV_NOT_COMPILED), 1);
}

TEST_F(conv, a_config_that_wants_too_much_memory_costs_only_itself)
{
    CONV_USE(f, conv_tunable);
    /* the config that the search tries last, before it times the finalists again */
    f->greedy_config = "9,1";
    must(conv_tune(f), f->err);
    assert_string_equal(conv_at(f, 0).config, "11,1");
    assert_int_equal(conv_trials_in(f, KILN_CONV_NOT_RUN), 1);
    assert_int_equal(conv_trials_in(f, KILN_CONV_TIMED), CONV_SPACE - 1);
}

TEST_F(conv, a_device_lost_in_a_search_keeps_the_records_made_before)
{
    CONV_USE(f, conv_tunable);
    f->fatal_config = "11,1";
    assert_int_equal(conv_tune(f), KILN_E_GPU_FAULT);
    assert_says(f->err.text, "ConvTuned");
    assert_says(f->err.text, "11,1");
    assert_non_null(conv_put_of(f, TUNING_FIND, "ConvTuned"));
}

static const struct conv_solver tuned_before[] = {
    { .name = "ConvTuned", .kernel = "right 2.1", .has_space = true, .best = "5,1" },
    { .name = "ConvDirectNaive", .kernel = "right 4" },
};

TEST_F(conv, a_tuned_config_is_searched_again_only_if_enforced)
{
    CONV_USE(f, tuned_before);
    must(conv_tune(f), f->err);
    assert_string_equal(conv_at(f, 0).config, "5,1");
    assert_int_equal(conv_at(f, 0).tried, 0);
    assert_null(conv_put_of(f, TUNING_PERF, "ConvTuned"));
    f->options.enforce = KILN_ENFORCE_SEARCH;
    must(conv_tune(f), f->err);
    assert_int_equal(conv_at(f, 0).tried, 0);
    f->options.enforce = KILN_ENFORCE_DB_UPDATE;
    must(conv_tune(f), f->err);
    assert_string_equal(conv_at(f, 0).config, "11,1");
}

TEST_F(conv, find_searches_where_that_is_enforced)
{
    CONV_USE(f, conv_tunable);
    f->options.enforce = KILN_ENFORCE_DB_UPDATE;
    must(conv_find(f), f->err);
    assert_int_equal(f->config_requests, 0);
    f->options.enforce = KILN_ENFORCE_SEARCH;
    must(conv_find(f), f->err);
    assert_string_equal(conv_at(f, 0).config, "11,1");
    CONV_USE(f, tuned_before);
    f->options.enforce = KILN_ENFORCE_SEARCH_DB_UPDATE;
    must(conv_find(f), f->err);
    assert_string_equal(conv_at(f, 0).config, "11,1");
}

TEST_F(conv, clean_forgets_the_config_and_searches_nothing)
{
    CONV_USE(f, tuned_before);
    f->options.enforce = KILN_ENFORCE_DB_CLEAN;
    must(conv_tune(f), f->err);
    assert_int_equal(f->removals, 1);
    /* the client must use its connection again, because a private kilnd accepts no other */
    assert_int_equal(f->daemon.connections, 1);
    assert_int_equal(f->config_requests, 0);
    assert_string_equal(conv_at(f, 0).config, "0,1");
    f->options.no_record = 1;
    must(conv_find(f), f->err);
    assert_int_equal(f->removals, 1);
}

TEST_F(conv, processes_share_a_search_in_the_clients_own_fallback_mode)
{
    CONV_USE(f, conv_tunable);
    setenv("KILN_FALLBACK", "changed later", 1);
    int rc = conv_tune(f);
    unsetenv("KILN_FALLBACK");
    must(rc, f->err);
    assert_int_not_equal(f->leases, 0);
}

TEST(conv, clean_measures_whatever_find_records_say)
{
    static const struct conv_solver known[] = {
        { .name = "ConvGood", .kernel = "right 1", .find_ms = 1.5 },
        { .name = "ConvDirectNaive", .kernel = "right 2" },
    };
    struct conv_fixture *f = *state;
    CONV_USE(f, known);
    f->options.enforce = KILN_ENFORCE_DB_CLEAN;
    f->options.mode = KILN_FIND_FAST;
    must(conv_find(f), f->err);
    assert_int_equal(conv_at(f, 0).state, KILN_CONV_UNTIMED);
    assert_int_equal(f->device->launches, 0);
    f->options.mode = KILN_FIND_HYBRID;
    must(conv_find(f), f->err);
    assert_int_equal(conv_at(f, 0).state, KILN_CONV_TIMED);
}

TEST_F(conv, a_caller_that_stops_tuning_keeps_the_best_so_far)
{
    CONV_USE(f, conv_tunable);
    /* The caller stops after two solvers that are timed, and three configs that are tried. */
    f->enough_after = 2 + 3;
    must(conv_tune(f), f->err);
    assert_int_equal(conv_at(f, 0).tried, 3);
    assert_non_null(conv_put_of(f, TUNING_PERF, "ConvTuned"));
}

TEST_F(conv, a_search_that_tried_nothing_new_records_no_config)
{
    CONV_USE(f, conv_tunable);
    /* The caller stops after two timed solvers, and one config, which the heuristic has chosen. */
    f->enough_after = 2 + 1;
    must(conv_tune(f), f->err);
    assert_int_equal(conv_at(f, 0).tried, 1);
    assert_non_null(conv_put_of(f, TUNING_FIND, "ConvTuned"));
    assert_null(conv_put_of(f, TUNING_PERF, "ConvTuned"));
}

TEST_F(conv, a_search_reports_its_shares)
{
    CONV_USE(f, conv_tunable);
    must(conv_tune(f), f->err);
    assert_int_equal(f->reports, 2);
    assert_string_equal(conv_at(f, 0).config, "11,1");
    assert_int_equal(conv_at(f, 0).tried, CONV_SPACE);
}

TEST_F(conv, a_search_with_company_tries_its_own_share_only)
{
    CONV_USE(f, conv_tunable);
    f->has_company = true;
    must(conv_tune(f), f->err);
    assert_int_equal(f->reports, 1);
    assert_in_range(conv_at(f, 0).tried, CONV_SPACE / 2, CONV_SPACE / 2 + 1);
}

TEST_F(conv, a_search_whose_other_shares_ended_first_tries_its_own_share_only)
{
    CONV_USE(f, conv_tunable);
    f->is_last = true;
    must(conv_tune(f), f->err);
    assert_int_equal(f->reports, 1);
    assert_int_equal(conv_at(f, 0).tried, CONV_SPACE / 2);
}

TEST_F(conv, the_known_best_is_refined_if_all_shares_are_taken)
{
    CONV_USE(f, conv_tunable);
    f->all_taken = true;
    must(conv_tune(f), f->err);
    assert_int_equal(f->reports, 0);
    assert_string_equal(conv_at(f, 0).config, "11,1"); /* found step by step, starting at "0,1" */
}

TEST_F(conv, a_lost_lease_is_taken_again)
{
    CONV_USE(f, conv_tunable);
    f->loses_lease = true; /* kilnd no longer knows the lease, as after a restart */
    must(conv_tune(f), f->err);
    assert_int_equal(f->reports, 2);
    assert_string_equal(conv_at(f, 0).config, "11,1");
    assert_int_equal(conv_at(f, 0).tried, CONV_SPACE);
}

TEST_F(conv, a_search_that_records_nothing_for_the_user_is_not_shared)
{
    CONV_USE(f, conv_tunable);
    f->options.no_record = 1;
    must(conv_tune(f), f->err);
    assert_int_equal(f->leases, 0);
    assert_string_equal(conv_at(f, 0).config, "11,1");
    f->options.no_record = 0;
    f->options.tier = KILN_TUNING_HOST;
    must(conv_tune(f), f->err);
    assert_int_equal(f->leases, 0);
}

TEST_F(conv, a_report_that_is_refused_ends_the_sharing_and_not_the_search)
{
    CONV_USE(f, conv_tunable);
    f->refuses_reports = true;
    must(conv_tune(f), f->err);
    assert_int_equal(f->reports, 1);
    assert_string_equal(conv_at(f, 0).config, "11,1");
    assert_non_null(conv_put_of(f, TUNING_PERF, "ConvTuned"));
    assert_int_equal(kiln_conv_result_recorded(f->result, &f->err), KILN_E_DENIED);
    assert_says(f->err.text, "ConvTuned");
}

TEST_F(conv, a_tuned_config_that_cannot_be_recorded_is_returned)
{
    CONV_USE(f, conv_tunable);
    f->refuses_puts = true;
    must(conv_tune(f), f->err);
    assert_string_equal(conv_at(f, 0).config, "11,1");
    assert_string_equal(kiln_plan_config(kiln_conv_result_plan(f->result)), "11,1");
    assert_int_equal(kiln_conv_result_recorded(f->result, &f->err), KILN_E_FULL);
}

SET_UP_OF(set_up_with_journal, struct conv_fixture)
{
    conv_open(f);
    f->options.journal = test_directory();
    f->options.enforce = KILN_ENFORCE_DB_UPDATE;
    CONV_USE(f, conv_tunable);
}

FIXTURE_OF(with_journal, struct conv_fixture, set_up_with_journal, NULL);

TEST_F(with_journal, a_resumed_search_retries_configs_that_kilnd_had_no_time_for)
{
    f->busy = "11,1";
    f->uncompiled_config = "10,1";
    must(conv_tune(f), f->err);
    assert_string_equal(conv_at(f, 0).config, "12,1");
    assert_int_equal(conv_trials_in(f, KILN_CONV_NOT_COMPILED), 2);

    f->busy = NULL;
    f->uncompiled_config = NULL;
    must(conv_tune(f), f->err);

    assert_string_equal(conv_at(f, 0).config, "11,1");
    assert_int_equal(conv_trials_in(f, KILN_CONV_NOT_COMPILED), 1);
}

TEST_F(with_journal, without_a_directory_for_a_journal_tune_does_without)
{
    const char *mine = f->options.journal;
    f->options.journal = NULL;
    setenv("XDG_STATE_HOME", "/proc/nowhere", 1);
    must(conv_tune(f), f->err);
    unsetenv("XDG_STATE_HOME");
    f->options.journal = mine;
    assert_string_equal(conv_at(f, 0).config, "11,1");
}
