/* SPDX-License-Identifier: MIT */
#include "cli/driver/host_memory.h"
#include "cli/driver/job.h"
#include "cli/driver/options.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

struct fixture {
    struct kiln_driver_line job;
    struct driver_call call;
    struct kiln_error err;
};

SET_UP(set_up) {}

TEAR_DOWN(tear_down) { driver_call_done(&f->call); }

FIXTURE(driver_options, set_up, tear_down);

#define CALL(f, ...)                                                                   \
    driver_call_parse((int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)), \
                      (const char *[]){ __VA_ARGS__ }, &(f)->call, &(f)->err)

TEST_F(driver_options, the_search_flag_is_part_of_the_settings)
{
    assert_int_equal(job_parse("conv -s 1", &f->job, &f->err), KILN_E_OK);
    assert_int_equal(f->job.search, 1);
    assert_int_equal(job_parse("conv -s 0", &f->job, &f->err), KILN_E_OK);
    assert_int_equal(f->job.search, 0);
}

TEST_F(driver_options, miopens_solver_numbers_are_refused_with_an_example)
{
    static const char *const words[] = { "conv", "-S", "85" };
    assert_int_equal(job_parse("conv -S 85", &f->job, &f->err), KILN_E_INVALID);
    assert_says(f->err.text, "-S 85");
    assert_non_null(strstr(f->err.text, "-S ConvDirectNaive"));
    assert_int_equal(job_parse("conv -S -7", &f->job, &f->err), KILN_E_INVALID);
    assert_int_equal(job_parse_words(words, 3, &f->job, &f->err), KILN_E_INVALID);
    assert_int_equal(job_parse("conv -S 0", &f->job, &f->err), KILN_E_OK);
    assert_int_equal(job_parse("conv -S 2Conv", &f->job, &f->err), KILN_E_OK);
    assert_string_equal(f->job.solver, "2Conv");
}

TEST_F(driver_options, a_command_line_becomes_problems_and_settings)
{
    assert_int_equal(job_parse("./bin/MIOpenDriver conv -n 64 -F 3", &f->job, &f->err), KILN_E_OK);
    assert_int_equal(f->job.count, 2);
    assert_int_equal(f->job.problems[1].n, 64);
    assert_int_equal(f->job.verify, 1);
    assert_int_equal(f->job.iterations, 10);
}

TEST_F(driver_options, our_options_and_miopens_flags_mix_freely)
{
    int rc =
        CALL(f, "--device", "opencl:1", "convfp16", "-n", "4", "--json", "--seed", "9", "-F", "1");

    assert_int_equal(rc, KILN_E_OK);
    assert_int_equal(f->call.command, DRIVER_CONV);
    assert_string_equal(f->call.options.device, "opencl:1");
    assert_true(f->call.options.common.json);
    assert_int_equal(f->call.options.seed.value, 9);
    assert_int_equal(f->call.words.count, 5);
    assert_string_equal(f->call.words.words[0], "convfp16");
    assert_string_equal(f->call.words.words[3], "-F");
}

TEST_F(driver_options, a_logged_command_line_may_be_pasted_whole)
{
    assert_int_equal(CALL(f, "/opt/rocm/bin/MIOpenDriver", "conv", "-n", "1"), KILN_E_OK);
    assert_int_equal(f->call.command, DRIVER_CONV);
    assert_int_equal(f->call.words.count, 3);
}

TEST_F(driver_options, other_commands_check_the_number_of_their_arguments)
{
    assert_int_equal(CALL(f, "run"), KILN_E_INVALID);
    driver_call_done(&f->call);
    assert_int_equal(CALL(f, "run", "-n", "4"), KILN_E_INVALID);
    driver_call_done(&f->call);
    assert_int_equal(CALL(f, "run", "a", "b"), KILN_E_INVALID);
    assert_non_null(strstr(f->err.text, "'b'"));
    driver_call_done(&f->call);
    assert_int_equal(CALL(f, "pool"), KILN_E_INVALID);
    assert_non_null(strstr(f->err.text, "'pool'"));
    driver_call_done(&f->call);
    assert_int_equal(CALL(f, "run", "-", "--summary"), KILN_E_OK);
    assert_int_equal(f->call.command, DRIVER_RUN);
    assert_true(f->call.options.summary);
    assert_false(f->call.options.ahead);
}

TEST_F(driver_options, ahead_works_only_with_files)
{
    assert_int_equal(CALL(f, "conv", "--ahead", "-n", "4"), KILN_E_INVALID);
    assert_says(f->err.text, "--ahead");
    driver_call_done(&f->call);
    assert_int_equal(CALL(f, "run", "file", "--ahead"), KILN_E_OK);
    assert_true(f->call.options.ahead);
}

TEST_F(driver_options, too_much_memory_is_refused_with_both_numbers)
{
    SKIP_IF(host_memory_available() == UINT64_MAX, "the free memory of this host is unknown");
    assert_int_equal(host_memory_check((uint64_t)1 << 60, "the problem", &f->err),
                     KILN_E_NO_MEMORY);
    assert_non_null(strstr(f->err.text, "1.0 EiB"));
    assert_non_null(strstr(f->err.text, "-V 0"));
    assert_int_equal(host_memory_check(1, "the problem", &f->err), KILN_E_OK);
}
