/* SPDX-License-Identifier: MIT */
#include "cli/driver/flags.h"
#include "cli/driver/host_memory.h"
#include "cli/driver/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct run_flags flags;
    struct flag_words words;
    struct driver_call call;
    struct kiln_error err;
};

static int set_up(void **state)
{
    *state = calloc(1, sizeof(struct fixture));
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    flag_words_done(&f->words);
    driver_call_done(&f->call);
    free(f);
    return 0;
}

static int parse(struct fixture *f, const char *line)
{
    flag_words_done(&f->words);
    int rc = flag_words_split(line, &f->words, &f->err);
    return rc ? rc : run_flags_parse(f->words.words, f->words.count, &f->flags, &f->err);
}

#define CALL(f, ...)                                                                   \
    driver_call_parse((int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)), \
                      (const char *[]){ __VA_ARGS__ }, &(f)->call, &(f)->err)

static void defaults_are_those_of_miopen_driver(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(parse(f, "./bin/MIOpenDriver conv -n 64 -c 3 -H 224 -W 224"), KILN_E_OK);
    assert_true(f->flags.verify);
    assert_false(f->flags.time);
    assert_false(f->flags.wall);
    assert_int_equal(f->flags.iterations, 10);
    assert_string_equal(f->flags.solver, "");
}

static void letters_long_names_and_attached_values_mean_the_same(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(parse(f, "conv -V 0 -t1 --iter 25 --wall=1 -S ConvDirectNaive -s 0"),
                     KILN_E_OK);
    assert_false(f->flags.verify);
    assert_true(f->flags.time);
    assert_true(f->flags.wall);
    assert_int_equal(f->flags.iterations, 25);
    assert_string_equal(f->flags.solver, "ConvDirectNaive");
}

static void the_value_of_another_flag_is_not_taken_for_a_flag(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(parse(f, "conv -S -1 --in_layout -t -i 3"), KILN_E_OK);
    assert_false(f->flags.time);
    assert_int_equal(f->flags.iterations, 3);
    assert_string_equal(f->flags.solver, "");
}

static void tuning_is_refused_in_plain_words(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(parse(f, "conv -s 1"), KILN_E_UNSUPPORTED);
    assert_non_null(strstr(f->err.text, "use -s 0"));
}

static void miopens_solver_numbers_are_refused_with_an_example(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(parse(f, "conv -S 85"), KILN_E_INVALID);
    assert_non_null(strstr(f->err.text, "-S 85"));
    assert_int_equal(parse(f, "conv -S 0"), KILN_E_OK);
}

static void values_that_are_no_numbers_are_named(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(parse(f, "conv -i many"), KILN_E_INVALID);
    assert_non_null(strstr(f->err.text, "'many' of -i"));
    assert_int_equal(parse(f, "conv -V 2"), KILN_E_INVALID);
    assert_int_equal(parse(f, "conv -t"), KILN_E_INVALID);
    assert_non_null(strstr(f->err.text, "-t needs a value"));
}

static void quotes_group_words_both_ways(void **state)
{
    static const char *const words[] = { "/opt/my tools/MIOpenDriver", "conv", "-m", "", "a\"b c" };
    struct fixture *f = *state;
    char *line = NULL;

    assert_int_equal(flag_words_join(words, 5, &line, &f->err), KILN_E_OK);
    assert_string_equal(line, "\"/opt/my tools/MIOpenDriver\" conv -m \"\" 'a\"b c'");
    assert_int_equal(flag_words_split(line, &f->words, &f->err), KILN_E_OK);

    assert_int_equal(f->words.count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(f->words.words[i], words[i]);
    free(line);
}

static void a_line_of_too_many_words_is_refused(void **state)
{
    struct fixture *f = *state;
    char line[4 * FLAG_WORDS_MOST] = "";
    for (size_t i = 0; i <= FLAG_WORDS_MOST; i++)
        memcpy(line + 2 * i, "x ", 3);
    assert_int_equal(flag_words_split(line, &f->words, &f->err), KILN_E_INVALID);
}

static void our_options_and_miopens_flags_mix_freely(void **state)
{
    struct fixture *f = *state;

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

static void a_logged_command_line_may_be_pasted_whole(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(CALL(f, "/opt/rocm/bin/MIOpenDriver", "conv", "-n", "1"), KILN_E_OK);
    assert_int_equal(f->call.command, DRIVER_CONV);
    assert_int_equal(f->call.words.count, 3);
}

static void other_commands_take_what_they_need_and_no_more(void **state)
{
    struct fixture *f = *state;
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
}

static void more_memory_than_there_is_is_refused_with_both_figures(void **state)
{
    struct fixture *f = *state;
    if (host_memory_available() == UINT64_MAX)
        skip();
    assert_int_equal(host_memory_check((uint64_t)1 << 60, "the problem", &f->err),
                     KILN_E_NO_MEMORY);
    assert_non_null(strstr(f->err.text, "1.0 EiB"));
    assert_non_null(strstr(f->err.text, "-V 0"));
    assert_int_equal(host_memory_check(1, "the problem", &f->err), KILN_E_OK);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(defaults_are_those_of_miopen_driver),
        T(letters_long_names_and_attached_values_mean_the_same),
        T(the_value_of_another_flag_is_not_taken_for_a_flag),
        T(tuning_is_refused_in_plain_words),
        T(miopens_solver_numbers_are_refused_with_an_example),
        T(values_that_are_no_numbers_are_named),
        T(quotes_group_words_both_ways),
        T(a_line_of_too_many_words_is_refused),
        T(our_options_and_miopens_flags_mix_freely),
        T(a_logged_command_line_may_be_pasted_whole),
        T(other_commands_take_what_they_need_and_no_more),
        T(more_memory_than_there_is_is_refused_with_both_figures),
    };
    return cmocka_run_group_tests_name("driver.flags", tests, NULL, NULL);
}
