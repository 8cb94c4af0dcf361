/* SPDX-License-Identifier: MIT */
#include "common/miopen/driver_line.h"
#include "tests/support/test.h"

#include <string.h>

static enum kiln_code parse_line(const char *text, struct driver_line *ret_line,
                                 struct kiln_err *err)
{
    *err = KILN_ERR_INIT;
    return driver_line_parse(bytes_of_text(text), ret_line, err);
}

TEST(plain, a_driver_line_from_miopens_log_is_read)
{
    struct driver_line line;
    struct kiln_err err;
    must(parse_line(
             "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 64 -c 3 -H 224 "
             "-W 230 -k 64 -y 7 -x 5 -p 3 -q 2 -u 2 -v 1 -l 1 -j 1 -m conv -g 1 -F 4 -t 1",
             &line, &err),
         err);
    assert_int_equal(line.problem.n, 64);
    assert_int_equal(line.problem.c, 3);
    assert_int_equal(line.problem.in.h, 224);
    assert_int_equal(line.problem.in.w, 230);
    assert_int_equal(line.problem.filter.h, 7);
    assert_int_equal(line.problem.filter.w, 5);
    assert_int_equal(line.problem.pad.h, 3);
    assert_int_equal(line.problem.pad.w, 2);
    assert_int_equal(line.problem.stride.h, 2);
    assert_int_equal(line.problem.stride.w, 1);
    assert_int_equal(line.directions, 4);
    assert_true(line.time);
    assert_true(line.verify);
    assert_false(line.search);
    assert_int_equal(line.iterations, 10);
    assert_string_equal(line.solver, "");
    struct problem p;
    assert_true(driver_line_problem(&line, 0, &p));
    assert_int_equal(p.direction, DIRECTION_BACKWARD_WEIGHTS);
    assert_false(driver_line_problem(&line, 1, &p));
}

TEST(plain, a_driver_line_may_have_types_layouts_and_long_flags)
{
    struct driver_line line;
    struct kiln_err err;
    must(
        parse_line(
            "convbfp16 --spatial_dim 3 --in_d=8 --fil_d 3 --pad_d 1 --conv_stride_d 2 -n 2 -c 4 "
            "-H 9 -W 9 -k 6 -y 3 -x 3 -g 2 --in_layout NDHWC --fil_layout NDHWC --out_layout NCDHW",
            &line, &err),
        err);
    assert_int_equal(line.problem.type, TYPE_BFLOAT16);
    assert_int_equal(line.problem.spatial_dims, 3);
    assert_int_equal(line.problem.in.d, 8);
    assert_int_equal(line.problem.stride.d, 2);
    assert_int_equal(line.problem.groups, 2);
    assert_int_equal(line.problem.x_layout, LAYOUT_CHANNELS_LAST);
    assert_int_equal(line.problem.y_layout, LAYOUT_CHANNELS_FIRST);
    assert_int_equal(line.directions, 7); /* -F 0 means all directions */
}

TEST(plain, a_driver_line_has_tf32_off_by_default_and_ignored_for_other_types)
{
    struct driver_line line;
    struct kiln_err err;
    must(parse_line("conv -n 1", &line, &err), err);
    assert_int_equal(line.problem.allow_tf32, 0);
    must(parse_line("conv -n 1 --allow_tf32 1", &line, &err), err);
    assert_int_equal(line.problem.allow_tf32, 1);
    must(parse_line("convfp16 -n 1 --allow_tf32 1", &line, &err), err);
    assert_int_equal(line.problem.allow_tf32, 0);
}

TEST(plain, short_long_and_attached_driver_flags_mean_the_same)
{
    struct driver_line line;
    struct kiln_err err;
    must(parse_line("conv -V 0 -t1 --iter 25 --wall=1 -s=1 -S ConvDirectNaive -n5", &line, &err),
         err);
    assert_false(line.verify);
    assert_true(line.time);
    assert_true(line.wall);
    assert_true(line.search);
    assert_int_equal(line.iterations, 25);
    assert_string_equal(line.solver, "ConvDirectNaive");
    assert_int_equal(line.problem.n, 5);
    must(parse_line("conv -S 0 -i 0", &line, &err), err);
    assert_string_equal(line.solver, "");
    assert_int_equal(line.iterations, 1);
}

TEST(plain, the_value_of_a_driver_flag_is_not_read_as_a_flag)
{
    struct driver_line line;
    struct kiln_err err;
    must(parse_line("-t 1 conv -S -1 --dump_output -t -i 3", &line, &err), err);
    assert_false(line.time);
    assert_int_equal(line.iterations, 3);
    assert_string_equal(line.solver, "");
}

TEST(plain, quotes_group_words_of_a_driver_line)
{
    struct driver_line line;
    struct kiln_err err;
    must(parse_line("\"/opt/my tools/MIOpenDriver conv\" conv -n '7' -S \"it's\"", &line, &err),
         err);
    assert_int_equal(line.problem.n, 7);
    assert_string_equal(line.solver, "it's");
    assert_int_equal(parse_line("conv -n '7 -c 3", &line, &err), KILN_INVALID);
    assert_says(err.text, "'7 -c 3'");
}

TEST(plain, a_written_driver_line_is_read_back)
{
    static const char *const lines[] = {
        "conv -n 1 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F "
        "1",
        "convfp16 -n 7 -c 8 -H 5 -W 1 -k 16 -y 2 -x 1 -p 0 -q 3 -u 2 -v 3 -l 2 -j 1 -m conv -g 8 "
        "--in_layout NHWC --fil_layout NHWC --out_layout NHWC -F 2",
        "convint8 -n 1 -c 4 -H 5 -W 5 -k 16 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 "
        "-F 1",
        "convbfp16 -n 2 -c 4 -H 9 -W 9 -k 6 -y 3 -x 3 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 2 "
        "--spatial_dim 3 --in_d 8 --fil_d 3 --pad_d 1 --conv_stride_d 2 --dilation_d 1 -F 4",
        "conv -n 1 -c 4 -H 5 -W 5 -k 16 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 "
        "--allow_tf32 1 -F 1",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct driver_line line;
        struct kiln_err err;
        struct problem p;
        char text[1024];
        must(parse_line(lines[i], &line, &err), err);
        assert_true(driver_line_problem(&line, 0, &p));
        problem_to_driver(&p, text, sizeof(text));
        assert_string_equal(text, lines[i]);
    }
}

TEST(plain, a_transposed_convolution_exchanges_x_and_y)
{
    struct driver_line line;
    struct kiln_err err;
    struct problem p;
    must(parse_line(
             "conv -m trans -n 1 -c 8 -H 5 -W 5 -k 4 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -Y 1 -X 1 -F 1",
             &line, &err),
         err);
    assert_true(driver_line_problem(&line, 0, &p));
    assert_int_equal(p.direction, DIRECTION_BACKWARD_DATA);
    assert_int_equal(p.c, 4);
    assert_int_equal(p.k, 8);
    assert_int_equal(p.in.h, 10); /* (5-1)*2 + 3 - 2*1 + 1 */
    assert_int_equal(problem_output(&p).h, 5);
}

TEST(plain, pad_modes_same_and_valid_determine_the_padding)
{
    struct driver_line line;
    struct kiln_err err;
    must(parse_line("conv -z same -n 1 -c 1 -H 7 -W 8 -k 1 -y 3 -x 5 -u 1 -v 2 -p 9 -q 9", &line,
                    &err),
         err);
    assert_int_equal(line.problem.pad.h, 1);
    assert_int_equal(line.problem.pad.w, 1); /* (5 - 2) / 2 */
    must(parse_line("conv -z valid -n 1 -c 1 -H 7 -W 8 -k 1 -y 3 -x 5 -p 9 -q 9", &line, &err),
         err);
    assert_int_equal(line.problem.pad.h, 0);
}

TEST(plain, a_blank_driver_line_or_a_comment_is_skipped_without_error)
{
    struct driver_line line;
    struct kiln_err err;
    assert_int_equal(parse_line("", &line, &err), KILN_NOT_FOUND);
    assert_int_equal(parse_line("  \t", &line, &err), KILN_NOT_FOUND);
    assert_int_equal(parse_line("# conv -n 1", &line, &err), KILN_NOT_FOUND);
    assert_string_equal(err.text, "");
}

TEST(plain, an_unknown_part_of_a_driver_line_is_named)
{
    static const struct {
        const char *line;
        const char *says;
    } bad[] = {
        { "pool -n 1", "'pool" },
        { "convfp64 -n 1", "'convfp64" },
        { "conv -n", "--batchsize" },
        { "conv -n x", "'x' of --batchsize" },
        { "conv -n -4", "'-4' of --batchsize" },
        { "conv -n 99999999999999999999", "of --batchsize" },
        { "conv --frobnicate 3", "'--frobnicate'" },
        { "conv -n +4", "'+4' of --batchsize" },
        { "conv -n 4x", "'4x' of --batchsize" },
        { "conv -n=", "'' of --batchsize" },
        { "conv -n 4294967296", "4294967295" },
        { "conv -V 2", "0 to 1" },
        { "conv -i many", "'many' of --iter" },
        { "conv -F 9", "0 to 7" },
        { "conv --spatial_dim 4", "2 to 3" },
        { "conv -n 1 -c 3 -H 8 -W 8 -k 4 -y 3 -x 3 --in_layout NCHWc4", "layout 'NCHWc4'" },
        { "conv -m strange", "mode 'strange'" },
        { "conv -n 1 -c 3 -H 2 -W 2 -k 4 -y 5 -x 5", "output" },
        { "conv -n 1 -b 1", "-b 1: bias" },
        { "conv -n 1 --tensor_vect=1", "-Z 1: a vectorised layout is not supported" },
        { "conv -n 1 --in_cast_type 1", "--in_cast_type 1: a cast" },
        { "conv stray", "'stray'" },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct driver_line line;
        struct kiln_err err;
        int rc = (int)parse_line(bad[i].line, &line, &err);
        assert_true(rc == KILN_INVALID || rc == KILN_UNSUPPORTED);
        assert_says(err.text, bad[i].says);
    }
}

TEST(plain, flags_of_unsupported_features_are_accepted_where_they_ask_for_nothing)
{
    struct driver_line line;
    struct kiln_err err = KILN_ERR_INIT;
    assert_int_equal(parse_line("conv -n 1 -b 0 -Z 0 -L 1 --in_cast_type -1 --wei_cast_type=-1 "
                                "--out_cast_type -1",
                                &line, &err),
                     KILN_OK);
}

TEST(plain, a_driver_line_of_too_many_words_is_refused_not_cut)
{
    char text[8 + 5 * DRIVER_WORDS_MAX] = "conv";
    struct driver_line line;
    struct kiln_err err;
    for (size_t i = 0; i < DRIVER_WORDS_MAX / 2; i++)
        strcat(text, " -n 1");
    assert_int_equal(parse_line(text, &line, &err), KILN_INVALID);
    assert_says(err.text, "128 words");
}

TEST(plain, a_driver_line_that_is_too_long_or_contains_a_nul_is_refused)
{
    static char longer[8192];
    struct driver_line line;
    struct kiln_err err = KILN_ERR_INIT;
    memset(longer, 'a', sizeof(longer));
    assert_int_equal(driver_line_parse(bytes_of(longer, sizeof(longer)), &line, &err),
                     KILN_INVALID);
    assert_int_equal(driver_line_parse(bytes_of("conv\0-n", 7), &line, &err), KILN_INVALID);
    assert_says(err.text, "NUL");
}

TEST(plain, every_driver_flag_has_a_help_line)
{
    char letter;
    const char *name;
    size_t count = 0;
    for (const char *help = driver_flag(0, &letter, &name); help;
         help = driver_flag(++count, &letter, &name)) {
        assert_true(help[0] && name[0]);
        if (strcmp(name, "iter") == 0)
            assert_string_equal(help, "launches to time (10)");
    }
    assert_true(count > 40);
}

TEST(plain, no_two_driver_flags_have_the_same_name)
{
    char letters[64] = "", letter;
    const char *name;
    size_t used = 0;
    for (size_t i = 0; driver_flag(i, &letter, &name); i++) {
        char other;
        const char *other_name;
        assert_true(!letter || !strchr(letters, letter));
        if (letter)
            letters[used++] = letter;
        for (size_t j = 0; j < i && driver_flag(j, &other, &other_name); j++)
            assert_string_not_equal(name, other_name);
    }
}
