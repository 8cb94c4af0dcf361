/* SPDX-License-Identifier: MIT */
#include "engine/compile/options.h"
#include "common/protocol/limits.h"
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

TEST(plain, macros_are_sorted_by_name_and_come_first)
{
    becomes("-O3 -DB=2 -DA=1", "-DA=1 -DB=2 -O3");
    becomes("  -DAB   -DA -UAA ", "-DA -UAA -DAB");
    becomes("", "");
}

TEST(plain, the_last_of_each_macro_is_kept)
{
    becomes("-DA=1 -DB -DA=2", "-DA=2 -DB");
    becomes("-DA=1 -UA", "-UA");
    becomes("-UA -DA", "-DA");
}

TEST(plain, other_options_keep_their_order)
{
    becomes("-ffast-math -O2", "-ffast-math -O2");
    becomes("-O2 -ffast-math", "-O2 -ffast-math");
}

TEST(plain, an_exact_repeat_keeps_the_place_where_it_has_effect)
{
    becomes("-O2 -O3 -O2", "-O3 -O2");
    becomes("-O2 -O2 -O2", "-O2");
}

TEST(plain, values_of_macros_may_be_expressions)
{
    becomes("-DTYPE=float -DN=(1<<3) -DX=a,b -DE= -DF", "-DE= -DF -DN=(1<<3) -DTYPE=float -DX=a,b");
}

TEST(plain, every_kind_of_allowed_switch_passes)
{
    becomes("-std=c++17 -fno-signed-zeros -mcumode -cl-mad-enable --ftz=true",
            "-std=c++17 -fno-signed-zeros -mcumode -cl-mad-enable --ftz=true");
}

TEST(plain, paths_and_plug_ins_are_refused_by_name)
{
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

TEST(plain, names_of_macros_are_identifiers)
{
    refuses("-D", "'-D'");
    refuses("-D1A", "'-D1A'");
    refuses("-DA(x)=x", "'-DA(x)=x'");
    refuses("-D=1", "'-D=1'");
    refuses("-UA=1", "'-UA=1'");
    refuses("-DA=\"x\"", "-DA=");
    refuses("-DA=\\", "-DA=");
    refuses("-DA=\xc3\xa9", "'-DA=");
}

TEST(plain, control_characters_are_not_options)
{
    char canonical[64];
    struct kiln_err err;
    assert_int_equal(canonicalise("-DA\n-DB", canonical, sizeof(canonical), &err), KILN_INVALID);
    assert_says(err.text, "byte 3");
}

TEST(plain, a_text_beyond_its_limit_is_refused)
{
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

TEST(plain, the_same_meaning_gives_the_same_text)
{
    char one[256], two[256];
    struct kiln_err err;
    must(canonicalise("-DB -O3 -DA=2", one, sizeof(one), &err), err);
    must(canonicalise("-DA=1 -DA=2 -O3  -DB", two, sizeof(two), &err), err);
    assert_string_equal(one, two);
    must(canonicalise(one, two, sizeof(two), &err), err);
    assert_string_equal(one, two);
}
