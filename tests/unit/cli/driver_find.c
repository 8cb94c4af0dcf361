/* SPDX-License-Identifier: MIT */
#include "cli/driver/find.h"
#include "cli/driver/find_progress.h"
#include "common/base/json.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

static const struct kiln_conv_entry solvers[] = {
    { .solver = "ConvFast",
      .algorithm = "a",
      .config = "8,4",
      .state = KILN_CONV_TIMED,
      .median_ms = 0.25,
      .spread_ms = 0.01,
      .samples = 20,
      .workspace = 2048,
      .checked = 64,
      .reason = "",
      .tried = 17 },
    { .solver = "ConvSlow",
      .algorithm = "b",
      .config = "",
      .state = KILN_CONV_CUT_SHORT,
      .median_ms = 9.5,
      .samples = 1,
      .reason = "hopeless" },
    { .solver = "ConvBad",
      .algorithm = "c",
      .config = "",
      .state = KILN_CONV_WRONG,
      .median_ms = 0.125,
      .samples = 20,
      .reason = "wrong: 3 of\x1b[2J 64 elements" },
};

static struct fake {
    struct kiln_conv_options options;
    unsigned finds, tunes, reports;
    int code, recorded;
} fake;

static int run_find(unsigned *count, const struct kiln_conv_options *options,
                    struct kiln_conv_result **ret_result, struct kiln_error *err)
{
    ++*count;
    fake.options = *options;
    for (unsigned i = 1; i <= fake.reports; i++) {
        const struct kiln_conv_progress reported = { .size = sizeof(reported),
                                                     .solver = "ConvFast",
                                                     .done = i,
                                                     .total = fake.reports,
                                                     .failed = 1,
                                                     .best_ms = 0.5,
                                                     .spent_ms = 100 * i };
        assert_int_equal(options->reported(options->context, &reported), 0);
    }
    *ret_result = (void *)&fake;
    if (fake.code)
        *err = (struct kiln_error){ .code = fake.code, .text = "no device" };
    return fake.code;
}

int kiln_conv_find(struct kiln_client *client, const struct kiln_problem *problem,
                   const struct kiln_conv_options *options, struct kiln_conv_result **ret_result,
                   struct kiln_error *err)
{
    (void)client, (void)problem;
    return run_find(&fake.finds, options, ret_result, err);
}

int kiln_conv_tune(struct kiln_client *client, const struct kiln_problem *problem,
                   const struct kiln_conv_options *options, struct kiln_conv_result **ret_result,
                   struct kiln_error *err)
{
    (void)client, (void)problem;
    return run_find(&fake.tunes, options, ret_result, err);
}

unsigned kiln_conv_result_count(const struct kiln_conv_result *result) { return result ? 3 : 0; }

int kiln_conv_result_entry(const struct kiln_conv_result *result, unsigned index,
                           struct kiln_conv_entry *ret_entry, struct kiln_error *err)
{
    (void)result, (void)err;
    *ret_entry = solvers[index];
    ret_entry->size = sizeof(*ret_entry);
    return KILN_E_OK;
}

unsigned kiln_conv_result_trial_count(const struct kiln_conv_result *result)
{
    return result ? 2 : 0;
}

int kiln_conv_result_trial(const struct kiln_conv_result *result, unsigned index,
                           struct kiln_conv_entry *ret_entry, struct kiln_error *err)
{
    return kiln_conv_result_entry(result, index, ret_entry, err);
}

int kiln_conv_result_recorded(const struct kiln_conv_result *result, struct kiln_error *err)
{
    (void)result;
    if (fake.recorded)
        *err = (struct kiln_error){ .code = fake.recorded, .text = "the disk is\x1b full" };
    return fake.recorded;
}

struct fixture {
    struct driver_options flags;
    struct kiln_conv_options options;
    struct kiln_conv_result *result;
    FILE *out;
    char text[8192];
    struct kiln_error err;
};

SET_UP(set_up)
{
    memset(&fake, 0, sizeof(fake));
    test_unsetenv("MIOPEN_FIND_MODE", "MIOPEN_FIND_ENFORCE");
    f->out = test_file();
}

FIXTURE(driver_find, set_up, NULL);

static const char *read_printed(struct fixture *f)
{
    rewind(f->out);
    f->text[fread(f->text, 1, sizeof(f->text) - 1, f->out)] = '\0';
    return f->text;
}

static int read_options(struct fixture *f)
{
    return find_options_read(&f->flags, &f->options, &f->err);
}

TEST_F(driver_find, without_options_the_mode_is_hybrid_and_nothing_is_enforced)
{
    assert_int_equal(read_options(f), KILN_E_OK);
    assert_int_equal(f->options.mode, KILN_FIND_HYBRID);
    assert_int_equal(f->options.enforce, KILN_ENFORCE_NONE);
    assert_int_equal(f->options.budget_ms, 0);
    assert_null(f->options.journal);
}

TEST_F(driver_find, modes_have_names_and_miopens_numbers)
{
    static const struct {
        const char *text;
        int mode;
    } cases[] = {
        { "normal", KILN_FIND_NORMAL }, { "1", KILN_FIND_NORMAL },
        { "FAST", KILN_FIND_FAST },     { "2", KILN_FIND_FAST },
        { "Hybrid", KILN_FIND_HYBRID }, { "3", KILN_FIND_HYBRID },
        { "5", KILN_FIND_HYBRID },      { "DYNAMIC_HYBRID", KILN_FIND_HYBRID },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        f->flags.find_mode = cases[i].text;
        assert_int_equal(read_options(f), KILN_E_OK);
        assert_int_equal(f->options.mode, cases[i].mode);
    }
}

TEST_F(driver_find, enforce_has_five_names_and_numbers)
{
    static const char *const names[] = { "none", "DB_UPDATE", "search", "search_db_update",
                                         "db_clean" };
    for (int i = 0; i < 5; i++) {
        char number[2] = { (char)('1' + i), '\0' };
        f->flags.enforce = names[i];
        assert_int_equal(read_options(f), KILN_E_OK);
        assert_int_equal(f->options.enforce, i + 1);
        f->flags.enforce = number;
        assert_int_equal(read_options(f), KILN_E_OK);
        assert_int_equal(f->options.enforce, i + 1);
    }
}

TEST_F(driver_find, a_flag_takes_precedence_over_its_variable)
{
    setenv("MIOPEN_FIND_MODE", "FAST", 1);
    setenv("MIOPEN_FIND_ENFORCE", "4", 1);
    assert_int_equal(read_options(f), KILN_E_OK);
    assert_int_equal(f->options.mode, KILN_FIND_FAST);
    assert_int_equal(f->options.enforce, KILN_ENFORCE_SEARCH_DB_UPDATE);
    f->flags.find_mode = "normal";
    f->flags.enforce = "none";
    assert_int_equal(read_options(f), KILN_E_OK);
    assert_int_equal(f->options.mode, KILN_FIND_NORMAL);
    assert_int_equal(f->options.enforce, KILN_ENFORCE_NONE);
}

TEST_F(driver_find, an_invalid_mode_is_refused_with_its_source)
{
    setenv("MIOPEN_FIND_MODE", "quick", 1);
    assert_int_equal(read_options(f), KILN_E_INVALID);
    assert_says(f->err.text, "'quick'");
    assert_says(f->err.text, "MIOPEN_FIND_MODE");
    setenv("MIOPEN_FIND_MODE", "", 1);
    f->flags.enforce = "0";
    assert_int_equal(read_options(f), KILN_E_INVALID);
    assert_says(f->err.text, "--enforce");
}

TEST_F(driver_find, the_other_flags_reach_libkiln)
{
    f->flags.budget = (struct option_number){ .value = 2500, .given = true };
    f->flags.no_record = true;
    f->flags.journal = "/somewhere";
    f->flags.toolchain = "nvrtc";
    assert_int_equal(read_options(f), KILN_E_OK);
    struct find_call call = { .options = &f->options, .solver = "ConvFast", .tunes = true };
    assert_int_equal(find_run(&call, &f->result, &f->err), KILN_E_OK);
    assert_int_equal(fake.tunes, 1);
    assert_int_equal(fake.options.budget_ms, 2500);
    assert_true(fake.options.no_record);
    assert_string_equal(fake.options.journal, "/somewhere");
    assert_string_equal(fake.options.toolchain, "nvrtc");
    assert_string_equal(fake.options.solver, "ConvFast");
    assert_null(fake.options.reported);
}

TEST_F(driver_find, the_limit_of_find_in_a_run_gives_way_to_a_budget_and_to_tuning)
{
    assert_int_equal(read_options(f), KILN_E_OK);
    struct find_call call = { .options = &f->options, .solver = "", .find_ms = RUN_FIND_MS };
    assert_int_equal(find_run(&call, &f->result, &f->err), KILN_E_OK);
    assert_int_equal(fake.options.budget_ms, 3000);
    call.tunes = true;
    assert_int_equal(find_run(&call, &f->result, &f->err), KILN_E_OK);
    assert_int_equal(fake.options.budget_ms, 0);
    call.tunes = false;
    f->options.budget_ms = 2500;
    assert_int_equal(find_run(&call, &f->result, &f->err), KILN_E_OK);
    assert_int_equal(fake.options.budget_ms, 2500);
}

TEST_F(driver_find, a_failed_find_returns_its_message)
{
    struct find_call call = { .options = &f->options, .solver = "" };
    fake.code = KILN_E_GPU_FAULT;
    assert_int_equal(find_run(&call, &f->result, &f->err), KILN_E_GPU_FAULT);
    assert_says(f->err.text, "no device");
}

TEST_F(driver_find, without_a_terminal_progress_is_a_line_for_each_tenth)
{
    struct find_call call = {
        .options = &f->options, .solver = "", .tunes = true, .progress = f->out
    };
    fake.reports = 40;
    assert_int_equal(find_run(&call, &f->result, &f->err), KILN_E_OK);
    const char *text = read_printed(f);
    unsigned lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, 10);
    assert_null(strchr(text, '\r'));
    assert_says(text, "ConvFast: 40");
    assert_says(text, "0.500000 ms");
}

TEST_F(driver_find, the_table_has_every_solver_and_why_it_failed)
{
    assert_int_equal(find_print((void *)&fake, f->out, &f->err), KILN_E_OK);
    const char *text = read_printed(f);
    assert_says(text, "ConvFast");
    assert_says(text, "timed");
    assert_non_null(strstr(text, "0.250000"));
    assert_non_null(strstr(text, "2.0 KiB"));
    assert_non_null(strstr(text, "8,4"));
    assert_non_null(strstr(text, "cut short"));
    assert_null(strstr(text, "0.125000"));
    assert_says(text, "ConvBad: wrong:");
    assert_null(strchr(text, '\x1b'));
}

TEST(driver_find, json_has_solvers_and_trials)
{
    KILN_AUTO(json) struct json *json = find_json((void *)&fake);
    const struct json *list = json_get(json, "solvers");
    assert_int_equal(json_count(list), 3);
    assert_int_equal(json_count(json_get(json, "trials")), 2);
    const struct json *first = json_first(list);
    assert_string_equal(json_get_text(first, "solver", ""), "ConvFast");
    assert_string_equal(json_get_text(first, "state", ""), "TIMED");
    assert_int_equal(json_get_u64(first, "tried", 0), 17);
    assert_true(json_get_bool(json, "recorded", false));
    assert_null(json_get(json, "not_recorded"));
}

TEST_F(driver_find, an_unrecorded_measurement_causes_a_warning_and_is_in_the_json)
{
    find_warn((void *)&fake, f->out);
    assert_string_equal(read_printed(f), "");
    fake.recorded = KILN_E_FULL;
    find_warn((void *)&fake, f->out);
    assert_says(read_printed(f), "nothing was recorded: the disk is? full");
    KILN_AUTO(json) struct json *json = find_json((void *)&fake);
    assert_false(json_get_bool(json, "recorded", true));
    assert_string_equal(json_get_text(json, "not_recorded", ""), "the disk is\x1b full");
}

TEST_F(driver_find, a_recording_that_the_build_does_not_support_causes_one_warning)
{
    fake.recorded = KILN_E_NOT_FOUND;
    find_warn((void *)&fake, f->out);
    find_warn((void *)&fake, f->out);
    const char *printed = read_printed(f);
    assert_says(printed, "nothing was recorded: the disk is? full");
    assert_ptr_equal(strchr(printed, '\n'), strrchr(printed, '\n'));
}
