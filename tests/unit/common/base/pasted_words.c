/* SPDX-License-Identifier: MIT */
#include "common/base/pasted_words.h"
#include "tests/support/test.h"

static const char *const times[] = { "__DATE__", "__TIME__", "__TIMESTAMP__", NULL };

static bool is_found(const char *text) { return pasted_words_possible(bytes_of_text(text), times); }

TEST(plain, parts_of_a_word_are_found)
{
    static const char *const texts[] = {
        "C(__TI, ME__)",  "C(__T, IME__)", "C(__TIM, E__)", "C(__TIME, __)",      "__TIMES",
        "STAMP__",        "__TI\\\nME__",  "-DA=__DA",      "__ ## x ## __ DATE", "M(TIME) %:%: ",
        "TIMESTAMP,a##b",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (!is_found(texts[i]))
            fail_msg("'%s' is not found", texts[i]);
}

TEST(plain, other_names_are_not_found)
{
    static const char *const texts[] = {
        "",
        "a##b",
        "__T __D",
        "TIME DATE TIMESTAMP",
        "RUN_TIME a##b",
        "TIMES a##b",
        "__global__ __",
        "__TIME__ID",
        "MY__TI",
        "E_ ME_ ##",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (is_found(texts[i]))
            fail_msg("'%s' is found", texts[i]);
}
