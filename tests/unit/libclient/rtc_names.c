/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/names.h"
#include "tests/support/test.h"

#include <string.h>

struct texts {
    const char *program, *headers[2];
};

static bool are_expanded(const struct texts *texts)
{
    struct names_text *program = names_read(bytes_of_text(texts->program));
    struct names_text *headers[2];
    size_t count = 0;
    for (; count < 2 && texts->headers[count]; count++)
        headers[count] = names_read(bytes_of_text(texts->headers[count]));
    bool are = names_are_expanded(program, (const struct names_text *const *)headers, count);
    names_free(program);
    for (size_t i = 0; i < count; i++)
        names_free(headers[i]);
    return are;
}

static void assert_all(const struct texts *texts, size_t count, bool expected)
{
    for (size_t i = 0; i < count; i++)
        if (are_expanded(&texts[i]) != expected)
            fail_msg("'%s' with '%s': %s", texts[i].program,
                     texts[i].headers[0] ? texts[i].headers[0] : "",
                     expected ? "the name is not found" : "there is no name");
}

TEST(plain, a_program_that_expands_the_name_depends_on_it)
{
    static const struct texts texts[] = {
        { "int n = sizeof(__FILE__);", { NULL } },
        { "int n = sizeof(__FI\\\nLE__);", { NULL } },
        { "#define C(a, b) a##b\nint n = sizeof(C(__FI, LE__));", { NULL } },
        { "#define C(a) __##a##__\nint n = sizeof(C(FILE));", { NULL } },
        { "int n = sizeof(__BASE_FILE__);", { NULL } },
        { "int n = sizeof(__FILE_NAME__);", { NULL } },
        { "int n = length(__builtin_FILE());", { NULL } },
        { "int n = A;", { "#define A sizeof(__FILE__)\n" } },
        { "int n = A;", { "#define A B\n", "#define B sizeof(__FILE__)\n" } },
        { "int n = A;", { "#define B sizeof(__FILE__)\n", "#define A B\n" } },
        { "int n = A;", { " # /* a */ define A /* b\n c */ sizeof(__FILE__)\n" } },
        { "int n = A;", { "#define A \\\n sizeof(__FILE__)\n" } },
        { "int n = A;", { "%:define A sizeof(__FILE__)\n" } },
        { "int n = A;", { "#define C(a, b) a##b\n#define A sizeof(C(__FI, LE__))\n" } },
        { "int n = sizeof(C(__F, C(IL, E__)));", { "#define C(a, b) a##b\n" } },
        { "int n = sizeof(C(__, C(FILE, __)));", { "#define C(a, b) a##b\n" } },
        { "int n = LOG(ERROR);", { "#define LOG_ERROR __FILE__\n#define LOG(l) LOG_##l\n" } },
        { "int n = C(LOG_, ERROR);", { "#define LOG_ERROR __FILE__\n#define C(a, b) a##b\n" } },
        { "int n = LOG(GET);", { "#define LOG(l) l##_LOG\n", "#define GET_LOG __FILE__\n" } },
        { "f(R\"(\n#if )\", __FILE__);", { NULL } },
        { "/*\n#if */ int n = sizeof(__FILE__);", { NULL } },
        { "f(\"# /*\", __FILE__); /* end */", { NULL } },
    };
    assert_all(texts, sizeof(texts) / sizeof(texts[0]), true);
}

TEST(plain, a_header_with_the_name_of_the_main_file_makes_all_programs_depend_on_it)
{
    static const struct texts texts[] = {
        { "int n;", { "constexpr int size = sizeof(__BASE_FILE__);\n" } },
        { "int n;", { "int size(const char *f = __builtin_FILE());\n" } },
        { "int n;", { "#define F __builtin_FILE()\n", "int size(const char *f = F);\n" } },
        { "int n;", { "int size(const char *f = F);\n", "#define F() __BASE_FILE__\n" } },
        { "int n;", { "#if A\nint size = sizeof(__BASE_FILE__);\n" } },
        { "int n;", { "#define A \"/*\"\nint size = sizeof(__BASE_FILE__);\n" } },
        { "int n;", { "asm(\"#if\"); int size = sizeof(__BASE_FILE__);\n" } },
        { "int n;", { "auto where = __builtin_source_location();\n" } },
    };
    assert_all(texts, sizeof(texts) / sizeof(texts[0]), true);
}

TEST(plain, a_name_that_no_program_text_expands_does_not_matter)
{
    static const struct texts texts[] = {
        { "int n;", { NULL } },
        { "int n;", { "#define ASSERT(c) ((c) ? 0 : fail(__FILE__))\n" } },
        { "int n;", { "#define A __FILE__\n", "inline int f() { return fail(A); }\n" } },
        { "int n;", { "#define A __BASE_FILE__\n" } },
        { "int n;", { "// from __BASE_FILE__\n" } },
        { "int n;", { "#if HAS_BUILTIN(__builtin_FILE) || A < 1 // __builtin_FILE\n#endif\n" } },
        { "int n;", { "#if A < 1\n#else // __BASE_FILE__\n#endif // __BASE_FILE__\n" } },
        { "int n; // __FILE__", { NULL } },
        { "int AB;", { "#define A __FILE__\n" } },
        { "int n;", { "#define A __builtin_popcount\nint f = C(__builtin_, popc);\n" } },
        { "int LOG_INFO;", { "#define LOG_ERROR __FILE__\n#define LOG(l) LOG##l\n" } },
    };
    assert_all(texts, sizeof(texts) / sizeof(texts[0]), false);
}

TEST(plain, long_words_and_macros_that_use_each_other_take_no_long_time)
{
    static char text[1u << 20] = "#define ";
    memset(text + strlen(text), '_', sizeof(text) - strlen(text) - 1);
    assert_false(are_expanded(&(struct texts){ text, { "#define A __FILE__\n" } }));
    assert_true(
        are_expanded(&(struct texts){ "int n = A;", { "#define A B\n#define B A __FILE__\n" } }));
}
