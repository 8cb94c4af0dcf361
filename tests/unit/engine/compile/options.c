/* SPDX-License-Identifier: MIT */
#include "engine/compile/options.h"
#include "common/limits.h"
#include "tests/support/test.h"

#include <string.h>

static enum kiln_code canonicalise(const char *text, char *ret_text, size_t size,
                                   struct kiln_err *err)
{
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, LIMIT_OPTIONS_TEXT);
    *err = KILN_ERR_INIT;
    enum kiln_code rc = options_canonicalise(bytes_of_text(text), &b, err);
    assert_true(b.size < size);
    if (b.size)
        memcpy(ret_text, b.data, b.size);
    ret_text[b.size] = '\0';
    return rc;
}

static void becomes(const char *text, const char *expected)
{
    char canonical[4096];
    struct kiln_err err;
    must(canonicalise(text, canonical, sizeof(canonical), &err), err);
    assert_string_equal(canonical, expected);
}

static void refuses(const char *text, const char *named)
{
    char canonical[4096];
    struct kiln_err err;
    assert_int_equal(canonicalise(text, canonical, sizeof(canonical), &err), KILN_DENIED);
    assert_says(err.text, named);
    assert_string_equal(canonical, "");
}

static void macros_are_sorted_by_name_and_come_first(void **state)
{
    (void)state;
    becomes("-O3 -DB=2 -DA=1", "-DA=1 -DB=2 -O3");
    becomes("  -DAB   -DA -UAA ", "-DA -UAA -DAB");
    becomes("", "");
}

static void the_last_of_each_macro_is_kept(void **state)
{
    (void)state;
    becomes("-DA=1 -DB -DA=2", "-DA=2 -DB");
    becomes("-DA=1 -UA", "-UA");
    becomes("-UA -DA", "-DA");
}

static void other_options_keep_their_order(void **state)
{
    (void)state;
    becomes("-ffast-math -O2", "-ffast-math -O2");
    becomes("-O2 -ffast-math", "-O2 -ffast-math");
}

static void an_exact_repeat_keeps_the_place_where_it_has_effect(void **state)
{
    (void)state;
    becomes("-O2 -O3 -O2", "-O3 -O2");
    becomes("-O2 -O2 -O2", "-O2");
}

static void values_of_macros_may_be_expressions(void **state)
{
    (void)state;
    becomes("-DTYPE=float -DN=(1<<3) -DX=a,b -DE= -DF", "-DE= -DF -DN=(1<<3) -DTYPE=float -DX=a,b");
}

static void every_kind_of_allowed_switch_passes(void **state)
{
    (void)state;
    becomes("-std=c++17 -fno-signed-zeros -mcumode -cl-mad-enable --ftz=true",
            "-std=c++17 -fno-signed-zeros -mcumode -cl-mad-enable --ftz=true");
}

static void paths_and_plug_ins_are_refused_by_name(void **state)
{
    (void)state;
    refuses("-DA -I/etc", "'-I/etc'");
    refuses("-include /etc/passwd", "'-include'");
    refuses("/etc/passwd", "'/etc/passwd'");
    refuses("-fplugin=x.so", "'-fplugin=x.so'");
    refuses("-Xclang -load", "'-Xclang'");
    refuses("@file", "'@file'");
    refuses("-std=../x", "'-std=../x'");
    refuses("-O2x", "'-O2x'");
    refuses("-mllvm", "'-mllvm'");
}

static void names_of_macros_are_identifiers(void **state)
{
    (void)state;
    refuses("-D", "'-D'");
    refuses("-D1A", "'-D1A'");
    refuses("-DA(x)=x", "'-DA(x)=x'");
    refuses("-D=1", "'-D=1'");
    refuses("-UA=1", "'-UA=1'");
    refuses("-DA=\"x\"", "-DA=");
    refuses("-DA=\\", "-DA=");
    refuses("-DA=\xc3\xa9", "'-DA=");
}

static void control_characters_are_not_options(void **state)
{
    (void)state;
    char canonical[64];
    struct kiln_err err;
    assert_int_equal(canonicalise("-DA\n-DB", canonical, sizeof(canonical), &err), KILN_INVALID);
    assert_says(err.text, "control character 10 at byte 3");
}

static void a_text_beyond_its_limit_is_refused(void **state)
{
    (void)state;
    static char text[LIMIT_OPTIONS_TEXT + 2];
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, LIMIT_OPTIONS_TEXT);
    memset(text, ' ', sizeof(text));
    enum kiln_code rc = options_canonicalise(bytes_of(text, LIMIT_OPTIONS_TEXT + 1), &b, &err);
    assert_int_equal(rc, KILN_INVALID);
    must(options_canonicalise(bytes_of(text, LIMIT_OPTIONS_TEXT), &b, &err), err);
    assert_int_equal(b.size, 0);
}

static void the_same_meaning_gives_the_same_text(void **state)
{
    (void)state;
    char one[256], two[256];
    struct kiln_err err;
    must(canonicalise("-DB -O3 -DA=2", one, sizeof(one), &err), err);
    must(canonicalise("-DA=1 -DA=2 -O3  -DB", two, sizeof(two), &err), err);
    assert_string_equal(one, two);
    must(canonicalise(one, two, sizeof(two), &err), err);
    assert_string_equal(one, two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(macros_are_sorted_by_name_and_come_first),
        cmocka_unit_test(the_last_of_each_macro_is_kept),
        cmocka_unit_test(other_options_keep_their_order),
        cmocka_unit_test(an_exact_repeat_keeps_the_place_where_it_has_effect),
        cmocka_unit_test(values_of_macros_may_be_expressions),
        cmocka_unit_test(every_kind_of_allowed_switch_passes),
        cmocka_unit_test(paths_and_plug_ins_are_refused_by_name),
        cmocka_unit_test(names_of_macros_are_identifiers),
        cmocka_unit_test(control_characters_are_not_options),
        cmocka_unit_test(a_text_beyond_its_limit_is_refused),
        cmocka_unit_test(the_same_meaning_gives_the_same_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
