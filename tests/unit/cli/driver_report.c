/* SPDX-License-Identifier: MIT */
#include "cli/driver/lines_report.h"
#include "cli/driver/report.h"
#include "tests/support/test.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fixture {
    struct report report;
    FILE *out;
    char text[8192];
    struct kiln_error err;
};

SET_UP(set_up)
{
    f->out = test_file();
    report_init(&f->report, /* json= */ true);
}

TEAR_DOWN(tear_down) { report_done(&f->report); }

FIXTURE(driver_report, set_up, tear_down);

static const char *read_printed(struct fixture *f)
{
    rewind(f->out);
    f->text[fread(f->text, 1, sizeof(f->text) - 1, f->out)] = '\0';
    return f->text;
}

static void add_result(struct fixture *f, int code)
{
    struct report_place place = { .line = 1, .command = "conv -n 1" };
    struct measurement m = { .problem = { .size = sizeof(m.problem) },
                             .err = { .code = code, .text = "so it went" } };
    report_add(&f->report, &place, &m);
}

static const char *print_json(struct fixture *f, const struct kiln_error *failure)
{
    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    dup2(fileno(f->out), STDOUT_FILENO);
    int rc = report_print_json(&f->report, NULL, 7, failure, &f->err);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    assert_int_equal(rc, KILN_E_OK);
    return read_printed(f);
}

TEST_F(driver_report, a_transposed_convolution_is_reported_as_transposed)
{
    struct report_place place = { .command = "conv -n 1 -F 2" };
    struct measurement m = { .problem.direction = KILN_BACKWARD_DATA, .transposed = true };
    lines_report_print(&place, &m, f->out);
    const char *text = read_printed(f);
    assert_says(text, "conv -n 1 -F 2\ntransposed");
    assert_says(text, "Forward Convolution");
    assert_says(text, "Convolution Data");
}

TEST_F(driver_report, a_plain_convolution_is_not_called_transposed)
{
    struct report_place place = { .command = "conv -n 1 -F 1" };
    struct measurement m = { .problem.direction = KILN_FORWARD };
    lines_report_print(&place, &m, f->out);
    assert_null(strstr(read_printed(f), "transposed"));
}

/* Kernels compile in parallel, so the sum of the compile times may exceed the fetch time. */
TEST_F(driver_report, the_compilers_time_is_not_shown_as_a_part_of_the_fetch)
{
    struct report_place place = { .command = "conv -n 1 -F 1" };
    struct measurement m = { .object_count = 1,
                             .objects = { { .key = "key" } },
                             .time = { .fetch = 1, .compile = 3 } };
    lines_report_print(&place, &m, f->out);
    assert_says(read_printed(f), "fetch 1.00 s (compilers' time 3.00 s), load");
}

TEST_F(driver_report, a_first_launch_on_opencl_is_said_to_include_the_drivers_compiling)
{
    struct report_place place = { .command = "conv -n 1 -F 1" };
    struct measurement m = { .toolchain = "opencl",
                             .object_count = 1,
                             .objects = { { .key = "key" } },
                             .time = { .first = 3 } };
    lines_report_print(&place, &m, f->out);
    assert_says(read_printed(f), "first launch 3.00 s (the OpenCL");
}

TEST_F(driver_report, a_first_launch_on_a_gpu_compiles_nothing)
{
    struct report_place place = { .command = "conv -n 1 -F 1" };
    struct measurement m = { .toolchain = "nvrtc",
                             .object_count = 1,
                             .objects = { { .key = "key" } },
                             .time = { .first = 3 } };
    lines_report_print(&place, &m, f->out);
    assert_null(strstr(read_printed(f), "OpenCL"));
}

TEST_F(driver_report, json_reports_the_direction_asked_for_of_a_transposed_convolution)
{
    static const struct {
        uint32_t direction;
        const char *text;
    } cases[] = {
        { KILN_FORWARD, "\"direction\":\"F\",\"transposed\":true,\"asked_direction\":\"B\"" },
        { KILN_BACKWARD_DATA, "\"direction\":\"B\",\"transposed\":true,\"asked_direction\":\"F\"" },
        { KILN_BACKWARD_WEIGHTS,
          "\"direction\":\"W\",\"transposed\":true,\"asked_direction\":\"W\"" },
    };
    struct report_place place = { .command = "conv" };
    for (size_t i = 0; i < 3; i++) {
        struct measurement m = { .problem.direction = cases[i].direction, .transposed = true };
        report_add(&f->report, &place, &m);
    }
    add_result(f, KILN_E_OK);
    const char *text = print_json(f, NULL);
    for (size_t i = 0; i < 3; i++)
        assert_non_null(strstr(text, cases[i].text));
    assert_non_null(strstr(text, "\"transposed\":false,\"asked_direction\":\"F\""));
    assert_null(strstr(text, "\"error\""));
}

TEST_F(driver_report, problems_that_failed_with_one_code_give_it_to_the_run)
{
    add_result(f, KILN_E_NOT_FOUND);
    add_result(f, KILN_E_NOT_FOUND);
    assert_int_equal(report_judge(&f->report, &f->err), KILN_E_NOT_FOUND);
    assert_says(f->err.text, "2 of");
}

TEST_F(driver_report, an_error_code_of_some_problems_is_not_the_status_of_the_run)
{
    add_result(f, KILN_E_NOT_FOUND);
    add_result(f, KILN_E_OK);
    assert_int_equal(report_judge(&f->report, &f->err), KILN_E_UNSUPPORTED);
    assert_says(f->err.text, "1 of");
}

TEST_F(driver_report, lines_that_are_not_problems_count_as_failures)
{
    struct kiln_error why = { .code = KILN_E_INVALID, .text = "not a line" };
    add_result(f, KILN_E_CORRUPT);
    report_add_failure(&f->report, &(struct report_place){ 2, "frob" }, &why);
    assert_int_equal(report_judge(&f->report, &f->err), KILN_E_CORRUPT);
    assert_says(f->err.text, "2 of");
}

TEST_F(driver_report, a_run_without_failures_is_fine)
{
    add_result(f, KILN_E_OK);
    assert_int_equal(report_judge(&f->report, &f->err), KILN_E_OK);
}

TEST_F(driver_report, the_json_of_a_failed_run_has_its_error)
{
    struct kiln_error failure = { .code = KILN_E_CORRUPT, .text = "1 of 1 problems failed" };
    add_result(f, KILN_E_CORRUPT);
    const char *text = print_json(f, &failure);
    assert_non_null(strstr(text, "\"results\":[{\"line\":1,\"command\":\"conv -n 1\",\"ok\":false,"
                                 "\"error\":{\"code\":\"CORRUPT\",\"text\":\"so it went\"}"));
    assert_non_null(
        strstr(text, ",\"error\":{\"code\":\"CORRUPT\",\"text\":\"1 of 1 problems failed\"}}\n"));
}
