/* SPDX-License-Identifier: MIT */
#include "cli/options.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

struct values {
    bool all;
    const char *target, *args;
    struct option_number count, age, size;
    struct option_list probe;
};

#define AT(field) offsetof(struct values, field)
static const struct option options[] = {
    { "all", 'a', OPTION_FLAG, AT(all), NULL, "everything", 0, 0 },
    { "target", 0, OPTION_TEXT, AT(target), "TARGET", "for this target", 0, 0 },
    { "args", 0, OPTION_VERBATIM, AT(args), "TEXT", "as it is", 0, 0 },
    { "count", 'c', OPTION_NUMBER, AT(count), "N", "how many", 1, 10 },
    { "age", 0, OPTION_TIME, AT(age), "TIME", "how old", 0, 0 },
    { "size", 0, OPTION_SIZE, AT(size), "SIZE", "how large", 0, 0 },
    { "probe", 0, OPTION_LIST, AT(probe), "TARGET...", "try these", 0, 0 },
};
#undef AT

struct fixture {
    struct values values;
    struct option_table table;
    struct option_parser parser;
    struct option_list words;
    struct kiln_error err;
};

SET_UP(set_up)
{
    f->table = (struct option_table){ options, sizeof(options) / sizeof(options[0]), &f->values };
    f->parser = (struct option_parser){ .tables = &f->table, .table_count = 1 };
}

TEAR_DOWN(tear_down)
{
    options_done(&f->table, 1);
    option_list_done(&f->words);
}

FIXTURE(options, set_up, tear_down);

#define PARSE(f, ...)                                                                            \
    options_parse(&(f)->parser, (int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)), \
                  (const char *[]){ __VA_ARGS__ }, &(f)->words, &(f)->err)

TEST_F(options, every_form_of_an_option_is_understood)
{
    int rc = PARSE(f, "--target", "gfx90a", "-a", "-c3", "--age=12h", "--size", "64K");

    assert_int_equal(rc, KILN_E_OK);
    assert_string_equal(f->values.target, "gfx90a");
    assert_true(f->values.all);
    assert_true(f->values.count.given);
    assert_int_equal(f->values.count.value, 3);
    assert_int_equal(f->values.age.value, 43200000);
    assert_int_equal(f->values.size.value, 65536);
    assert_int_equal(f->words.count, 0);
}

TEST_F(options, other_arguments_keep_their_order)
{
    assert_int_equal(PARSE(f, "one", "--all", "-", "--", "--target"), KILN_E_OK);

    assert_int_equal(f->words.count, 3);
    assert_string_equal(f->words.words[0], "one");
    assert_string_equal(f->words.words[1], "-");
    assert_string_equal(f->words.words[2], "--target");
    assert_null(f->values.target);
}

TEST_F(options, a_list_option_takes_the_arguments_up_to_the_next_option)
{
    assert_int_equal(PARSE(f, "--probe", "gfx906", "gfx90a", "-a", "--probe=sm_90", "rest"),
                     KILN_E_OK);

    assert_int_equal(f->values.probe.count, 4);
    assert_string_equal(f->values.probe.words[1], "gfx90a");
    assert_string_equal(f->values.probe.words[3], "rest");
    assert_true(f->values.all);
}

TEST_F(options, an_unknown_option_is_named_with_the_nearest_option)
{
    assert_int_equal(PARSE(f, "--traget", "gfx90a"), KILN_E_INVALID);

    assert_non_null(strstr(f->err.text, "'--traget'"));
    assert_non_null(strstr(f->err.text, "--target?"));
}

TEST_F(options, an_unknown_option_without_a_similar_one_is_named_alone)
{
    assert_int_equal(PARSE(f, "--frobnicate"), KILN_E_INVALID);
    assert_says(f->err.text, "'--frobnicate'");
    assert_int_equal(PARSE(f, "-x"), KILN_E_INVALID);
    assert_says(f->err.text, "'-x'");
}

TEST_F(options, unknown_options_are_passed_on_if_requested)
{
    f->parser.pass_unknown = true;

    assert_int_equal(PARSE(f, "conv", "-n", "64", "--target", "gfx90a", "--in_layout", "NHWC"),
                     KILN_E_OK);

    assert_int_equal(f->words.count, 5);
    assert_string_equal(f->words.words[1], "-n");
    assert_string_equal(f->words.words[4], "NHWC");
    assert_string_equal(f->values.target, "gfx90a");
}

TEST_F(options, the_first_argument_ends_the_options_if_requested)
{
    f->parser.stop_at_word = true;

    assert_int_equal(PARSE(f, "-a", "clear", "--nonsense"), KILN_E_OK);

    assert_true(f->values.all);
    assert_int_equal(f->words.count, 2);
    assert_string_equal(f->words.words[1], "--nonsense");
}

TEST_F(options, values_that_do_not_fit_are_named)
{
    assert_int_equal(PARSE(f, "--count", "11"), KILN_E_INVALID);
    assert_says(f->err.text, "1 to");
    assert_int_equal(PARSE(f, "--count", "0"), KILN_E_INVALID);
    assert_int_equal(PARSE(f, "--age", "soon"), KILN_E_INVALID);
    assert_says(f->err.text, "'soon'");
    assert_says(f->err.text, "--age");
    assert_int_equal(PARSE(f, "--size", "big"), KILN_E_INVALID);
    assert_int_equal(PARSE(f, "--all=yes"), KILN_E_INVALID);
    assert_says(f->err.text, "value");
}

TEST_F(options, a_missing_option_value_is_reported)
{
    assert_int_equal(PARSE(f, "--target"), KILN_E_INVALID);
    assert_says(f->err.text, "--target");
    assert_says(f->err.text, "TARGET");
    assert_int_equal(PARSE(f, "--target="), KILN_E_INVALID);
}

TEST_F(options, a_verbatim_text_may_be_empty_but_not_missing)
{
    assert_int_equal(PARSE(f, "--args", ""), KILN_E_OK);
    assert_string_equal(f->values.args, "");
    assert_int_equal(PARSE(f, "--args", "  -x "), KILN_E_OK);
    assert_string_equal(f->values.args, "  -x ");
    assert_int_equal(PARSE(f, "--args"), KILN_E_INVALID);
}

TEST_F(options, a_list_does_not_begin_with_an_option)
{
    assert_int_equal(PARSE(f, "--probe", "--all"), KILN_E_INVALID);

    assert_says(f->err.text, "--probe");
    assert_int_equal(PARSE(f, "--probe=-x"), KILN_E_OK);
}

TEST_F(options, a_value_may_look_like_an_option)
{
    assert_int_equal(PARSE(f, "--target", "-a"), KILN_E_OK);

    assert_string_equal(f->values.target, "-a");
    assert_false(f->values.all);
}

TEST_F(options, help_has_a_line_for_every_option)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    options_print_help(&f->table, out);
    fclose(out);

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        assert_non_null(strstr(text, options[i].name));
        assert_non_null(strstr(text, options[i].help));
    }
    assert_non_null(strstr(text, "  -c, --count N"));
    free(text);
}
