/* SPDX-License-Identifier: MIT */
#include "libclient/device/uri.h"
#include "libclient/failure.h"
#include "tests/support/test.h"

#include <kiln/kiln.h>
#include <string.h>

TEST(plain, codes_have_names_texts_and_advice)
{
    assert_string_equal(kiln_error_name(KILN_E_NOT_FOUND), "NOT_FOUND");
    assert_string_equal(kiln_error_text(KILN_E_NOT_FOUND), "no such entry");
    assert_int_equal(kiln_error_is_retryable(KILN_E_NOT_FOUND), 0);
    assert_int_equal(kiln_error_is_retryable(KILN_E_BUSY), 1);
    assert_string_equal(kiln_error_name(99), "?");
    assert_string_equal(kiln_error_text(-1), "?");
    assert_int_equal(kiln_error_is_retryable(99), 0);
}

TEST(plain, an_error_may_be_ignored_and_is_left_alone_on_success)
{
    struct kiln_err e = KILN_ERR_INIT;
    struct kiln_error out = { .code = 42, .text = "before" };
    assert_int_equal(error_return(&e, KILN_OK, &out), 0);
    assert_int_equal(out.code, 42);
    kiln_fail(&e, KILN_FULL, "no room");
    assert_int_equal(error_return(&e, KILN_FULL, NULL), KILN_E_FULL);
    assert_int_equal(error_return(&e, KILN_FULL, &out), KILN_E_FULL);
    assert_string_equal(out.text, "no room");
    assert_string_equal(out.log, "");
}

TEST(plain, a_code_without_a_message_gets_its_own_text)
{
    struct kiln_err e = { .code = KILN_NOT_FOUND };
    struct kiln_error out;
    error_return(&e, KILN_NOT_FOUND, &out);
    assert_string_equal(out.text, "no such entry");
}

TEST(plain, long_logs_are_cut_at_their_end)
{
    static char log[10000];
    memset(log, 'x', sizeof(log));
    FAILURE_AUTO struct failure f = FAILURE_INIT;
    failure_said(&f, KILN_COMPILE_FAILED, bytes_of_text("no"), bytes_of(log, sizeof(log)));
    struct kiln_error out;
    failure_return(&f, KILN_COMPILE_FAILED, &out);
    assert_int_equal(strlen(out.log), sizeof(out.log) - 1);
}

TEST(plain, the_version_is_the_projects) { assert_string_equal(kiln_version(), KILN_VERSION); }

TEST(plain, a_driver_line_gives_a_problem_a_direction)
{
    struct kiln_problem problems[3];
    struct kiln_error err;
    unsigned count = 0;
    must(kiln_problem_from_driver("/opt/x/MIOpenDriver conv -n 2 -c 4 -H 8 -W 9 -k 8 -y 3 -x 3 "
                                  "-p 1 -q 1 -F 5",
                                  problems, &count, &err),
         err);
    assert_int_equal(count, 2);
    assert_int_equal(problems[0].direction, KILN_FORWARD);
    assert_int_equal(problems[1].direction, KILN_BACKWARD_WEIGHTS);
    assert_int_equal(problems[1].in[2], 9);
    assert_int_equal(problems[0].size, sizeof(problems[0]));

    uint32_t output[3];
    uint64_t elements, bytes;
    must(kiln_problem_output(&problems[0], output, &err), err);
    assert_int_equal(output[1], 8);
    must(kiln_problem_tensor(&problems[0], KILN_TENSOR_Y, &elements, &bytes, &err), err);
    assert_int_equal(elements, 2 * 8 * 8 * 9);
    assert_int_equal(bytes, elements * 4);
    assert_int_equal(kiln_problem_tensor(&problems[0], 3, NULL, NULL, &err), KILN_E_INVALID);

    char text[400];
    struct kiln_problem again[3];
    must(kiln_problem_to_driver(&problems[1], text, sizeof(text), &err), err);
    must(kiln_problem_from_driver(text, again, &count, &err), err);
    assert_int_equal(count, 1);
    assert_memory_equal(&again[0], &problems[1], sizeof(again[0]));
}

TEST(plain, a_problem_of_another_type_ignores_tf32)
{
    struct kiln_problem problems[3];
    unsigned count = 0;
    char text[512];
    struct kiln_error err = { 0 };
    must(kiln_problem_from_driver("conv -n 2 -F 1 --allow_tf32 1", problems, &count, &err), err);
    assert_int_equal(problems[0].allow_tf32, 1);
    problems[0].type = KILN_FLOAT16;
    must(kiln_problem_to_driver(&problems[0], text, sizeof(text), &err), err);
    assert_null(strstr(text, "tf32"));
}

TEST(plain, lines_that_hold_no_problem_are_reported_apart)
{
    struct kiln_problem problems[3];
    struct kiln_error err;
    unsigned count = 9;
    assert_int_equal(kiln_problem_from_driver("# note", problems, &count, &err), KILN_E_NOT_FOUND);
    assert_says(err.text, "comment");
    assert_int_equal(kiln_problem_from_driver("conv -n zero", problems, &count, &err),
                     KILN_E_INVALID);
    assert_int_equal(count, 9);
    assert_int_equal(kiln_problem_from_driver(NULL, problems, &count, &err), KILN_E_INVALID);
}

TEST(plain, a_driver_line_says_how_to_run_its_problems)
{
    struct kiln_driver_line line = { .size = sizeof(line) };
    struct kiln_error err;
    must(kiln_driver_line_parse("convfp16 -F 6 -V 0 -t 1 -i 7 -w 2 -S ConvDirectNaive -s 1", &line,
                                &err),
         err);
    assert_int_equal(line.count, 2);
    assert_int_equal(line.problems[0].direction, KILN_BACKWARD_DATA);
    assert_int_equal(line.problems[1].direction, KILN_BACKWARD_WEIGHTS);
    assert_int_equal(line.problems[1].type, KILN_FLOAT16);
    assert_int_equal(line.verify, 0);
    assert_int_equal(line.time, 1);
    assert_int_equal(line.wall, 1);
    assert_int_equal(line.search, 1);
    assert_int_equal(line.transposed, 0);
    assert_int_equal(line.iterations, 7);
    assert_string_equal(line.solver, "ConvDirectNaive");
}

TEST(plain, driver_arguments_mean_the_same_as_a_line_of_them)
{
    static const char *const words[] = { "/opt/my tools/MIOpenDriver", "conv", "-m", "trans",
                                         "-k8" };
    struct kiln_driver_line line = { .size = sizeof(line) }, again = { .size = sizeof(again) };
    struct kiln_error err;
    must(kiln_driver_words_parse(words, 5, &line, &err), err);
    must(kiln_driver_line_parse("conv -m trans -k 8", &again, &err), err);
    assert_int_equal(line.transposed, 1);
    assert_int_equal(line.problems[0].direction, KILN_BACKWARD_DATA);
    assert_memory_equal(&line, &again, sizeof(line));
}

TEST(plain, a_driver_line_is_left_alone_on_failure)
{
    static const char *const words[] = { "conv", "-n" };
    struct kiln_driver_line line = { .size = sizeof(line), .count = 9 };
    struct kiln_driver_line unsized = { 0 };
    struct kiln_error err;
    assert_int_equal(kiln_driver_line_parse("# note", &line, &err), KILN_E_NOT_FOUND);
    assert_int_equal(kiln_driver_words_parse(words, 2, &line, &err), KILN_E_INVALID);
    assert_says(err.text, "--batchsize");
    assert_int_equal(kiln_driver_words_parse(NULL, 0, &line, &err), KILN_E_INVALID);
    assert_int_equal(kiln_driver_words_parse(NULL, 1, &line, &err), KILN_E_INVALID);
    assert_int_equal(kiln_driver_line_parse(NULL, &line, &err), KILN_E_INVALID);
    assert_int_equal(line.count, 9);
    assert_int_equal(kiln_driver_line_parse("conv", &unsized, &err), KILN_E_INVALID);
    assert_says(err.text, "size");
    assert_int_equal(kiln_driver_line_parse("conv", NULL, NULL), KILN_E_INVALID);
}

TEST(plain, the_drivers_flags_can_be_listed)
{
    char letter = 0;
    const char *name = NULL;
    assert_says(kiln_driver_flag(0, &letter, &name), "(100)");
    assert_int_equal(letter, 'n');
    assert_string_equal(name, "batchsize");
    assert_non_null(kiln_driver_flag(1, NULL, NULL));
    assert_null(kiln_driver_flag(10000, &letter, &name));
    assert_int_equal(letter, 'n');
}

TEST(plain, device_names_are_a_kind_and_a_number)
{
    struct device_uri uri;
    struct kiln_err err = KILN_ERR_INIT;
    must(device_uri_parse("opencl", &uri, &err), err);
    assert_int_equal(uri.kind, DEVICE_OPENCL);
    assert_int_equal(uri.index, 0);
    must(device_uri_parse("hip:12", &uri, &err), err);
    assert_int_equal(uri.kind, DEVICE_HIP);
    assert_int_equal(uri.index, 12);
    must(device_uri_parse("hip://GPU-0123abcd-ef", &uri, &err), err);
    assert_string_equal(uri.uuid, "GPU-0123abcd-ef");
    must(device_uri_parse("cuda://GPU-6e2a0c1d-1111-2222-3333-444455556666", &uri, &err), err);
    assert_int_equal(uri.kind, DEVICE_CUDA);
    must(device_uri_parse("cuda://MIG-6e2a0c1d-1111-2222-3333-444455556666", &uri, &err), err);
    assert_string_equal(uri.uuid, "MIG-6e2a0c1d-1111-2222-3333-444455556666");
    must(device_uri_parse("auto", &uri, &err), err);
    assert_int_equal(uri.kind, DEVICE_AUTO);
}

TEST(plain, a_list_of_names_is_cut_at_its_commas)
{
    const char *names = "cuda:0,,hip://GPU-1";
    char name[DEVICE_NAME_MAX];
    assert_true(device_uri_next(&names, name));
    assert_string_equal(name, "cuda:0");
    assert_true(device_uri_next(&names, name));
    assert_string_equal(name, "");
    assert_true(device_uri_next(&names, name));
    assert_string_equal(name, "hip://GPU-1");
    assert_false(device_uri_next(&names, name));
}

TEST(plain, a_list_is_no_name_of_one_device)
{
    struct device_uri uri;
    struct kiln_err err = KILN_ERR_INIT;
    assert_int_equal(device_uri_parse("hip:0,hip:1", &uri, &err), KILN_INVALID);
    assert_says(err.text, "list");
}

TEST(plain, other_device_names_are_refused)
{
    static const char *const wrong[] = { "",
                                         "gpu",
                                         "hip:",
                                         "hip:-1",
                                         "hip:1x",
                                         "auto:1",
                                         "opencl:12345",
                                         "hip://",
                                         "hip://GPU-",
                                         "opencl://GPU-1",
                                         "hip://MIG-1",
                                         "cuda://MIG-",
                                         "cuda://MIG-GPU-1/2/3",
                                         "hip://GPU-../x",
                                         "openclx",
                                         NULL };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct device_uri uri;
        struct kiln_err err = KILN_ERR_INIT;
        assert_int_equal(device_uri_parse(wrong[i], &uri, &err), KILN_INVALID);
        assert_says(err.text, "device");
    }
}
