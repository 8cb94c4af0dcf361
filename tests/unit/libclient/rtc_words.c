/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/words.h"
#include "tests/support/test.h"

static bool has_time(const char *text) { return words_have_time(bytes_of_text(text)); }

TEST(plain, parts_of_a_time_macro_in_comments_do_not_matter)
{
    static const char *const texts[] = {
        "#include <bits/time64.h>\t/* Defines __TIME*_T_TYPE macros.  */\n",
        "// __TIM\nint a;",
        "/* \" */ int a; /* __TI */",
        "char q = '\"'; // __TI\n",
        "char q = '\\''; /* __TI */",
        "const char *s = \"\\\"\"; // __TI",
        "int a = 1'000'000;\n// __TI",
        "/* it's */ // __TI",
        "#error don't\n// __TI\n",
        "#define C(a) a##b\n/* the TIME of\n * a compile */",
        "#include <a.h> // __TI",
        "#define A \\\n    1 /* __TI */",
        "// a \\\n __TI",
        "#warning a // __TI",
        "#if A < B\nint a; // __TI",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (has_time(texts[i]))
            fail_msg("'%s' has the time", texts[i]);
}

/* In each text, a rule that takes the last words for a comment would be wrong, or might be. */
TEST(plain, parts_of_a_time_macro_outside_comments_are_found)
{
    static const char *const texts[] = {
        "C(__TI, ME__) // a comment",
        "/* a comment */ C(__TI, ME__)",
        "const char *s = \"/*\"; C(__TI, ME__) /* */",
        "char c = '/*'; C(__TI, ME__) /* */",
        "const char *s = \"\\\"/*\"; C(__TI, ME__) /* */",
        "const char *s = \"a\\\n/*\"; C(__TI, ME__) /* */",
        "const char *s = R\"(\")\"; /*\"*/ C(__TI, ME__)",
        "// a \\\n/*\nC(__TI, ME__) /* */",
        "// a ?\?/\n/*\nC(__TI, ME__) /* */",
        "/* a *\\\n/ C(__TI, ME__) /* */",
        "#include <a/*b>\nC(__TI, ME__) /* */",
        "int a = 1'000; /* ' */ C(__TI, ME__)",
        "/ * C(__TI, ME__) */",
        "/* C(__TI, ME__)",
        "/\\\n* // */ C(__TI, ME__)",
        "/* a *\\\r\n/ C(__TI, ME__) /* */",
        "// a \\ \nC(__TI, ME__)",
        "// a\rC(__TI, ME__)",
        "int a = 1'000; /* ' // */ C(__TI, ME__)",
        "int a ?\?' /* ' // */ C(__TI, ME__)",
        "const char *s = R\\\n\"(\" // )\"; C(__TI, ME__)",
        "#include \\\n<a/*b>\nC(__TI, ME__) /* */",
        "#if __has_include(<a>) && !__has_include(<b/*c>)\nC(__TI, ME__)\n#endif /* */",
        "#pragma GCC dependency <a/*b>\nC(__TI, ME__) /* */",
        "#warning a /* b\nC(__TI, ME__) // */",
        "int a = 4 //* a */ 2; C(__TI, ME__)",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (!has_time(texts[i]))
            fail_msg("'%s' has no time", texts[i]);
}

TEST(plain, a_whole_time_macro_is_found_everywhere)
{
    assert_true(has_time("int a; // __TIME__"));
    assert_true(has_time("__DATE__"));
    assert_true(has_time("__\\\nTIME\\\n__"));
    assert_true(has_time("__\\ \nTIME\\\r\n__"));
    assert_true(has_time("#define C(a, b, c) a#\\\n#b#\\\n#c\nC(__, TIME, __)"));
    assert_false(has_time("int a; // a time"));
}
