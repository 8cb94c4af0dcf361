/* SPDX-License-Identifier: MIT */
#include "common/base/trace_text.h"

#include "tests/support/test.h"

#include <string.h>

#define KEY "15ba9f68351e15ba9f68351e15ba9f68351e15ba9f68351e15ba9f68351e0000"
#define PLAN "plan 1503 184220 compiled gfx90a:sramecc+ gfx90a68 - Naive conv -n 1 -c 8 -F 1"

static enum trace_verdict parse(const char *text, struct trace_line *line)
{
    return trace_line_parse(bytes_of_text(text), line);
}

static void expect_text(struct bytes is, const char *expected)
{
    assert_true(bytes_equal_text(is, expected));
}

TEST(plain, a_line_of_a_plan_has_its_words_and_the_problem)
{
    struct trace_line line;
    assert_int_equal(parse(PLAN, &line), TRACE_VALID);
    assert_int_equal(line.kind, TRACE_PLAN);
    assert_int_equal(line.wanted_us, 1503);
    assert_int_equal(line.waited_us, 184220);
    assert_int_equal(line.tier, TRACE_COMPILED);
    expect_text(line.target, "gfx90a:sramecc+");
    expect_text(line.database_id, "gfx90a68");
    assert_int_equal(line.toolchain.size, 0);
    expect_text(line.solver, "Naive");
    expect_text(line.rest, "conv -n 1 -c 8 -F 1");
}

TEST(plain, each_kind_of_line_is_written_as_it_was_read)
{
    static const char *const lines[] = {
        "process 1764288000000000 node7 42 libkiln 0.9.0 in python",
        PLAN,
        "object hot 12 " KEY,
        "kernel 5 6 disk 0 - " KEY,
        "compile 5 6 own 0 sm_90 " KEY,
        "cut lines",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct trace_line line = { 0 };
        BUFFER_AUTO struct buffer text;
        buffer_init(&text, TRACE_LINE_MAX);
        assert_int_equal(parse(lines[i], &line), TRACE_VALID);
        assert_true(trace_line_write(&line, &text));
        buffer_put_u8(&text, '\0');
        assert_int_equal(strncmp((const char *)text.data, lines[i], strlen(lines[i])), 0);
        assert_string_equal((const char *)text.data + strlen(lines[i]), "\n");
    }
}

TEST(plain, a_kind_of_a_newer_version_is_told_apart_from_damage)
{
    struct trace_line line;
    assert_int_equal(parse("shard-of 4 a b", &line), TRACE_UNKNOWN);
    assert_int_equal(parse("Plan 1 2", &line), TRACE_DAMAGED);
    assert_int_equal(parse("", &line), TRACE_DAMAGED);
    assert_int_equal(parse("pl\x01n 1", &line), TRACE_DAMAGED);
}

TEST(plain, damaged_lines_are_refused)
{
    static const char *const lines[] = {
        "plan 1 2 hot a b c d",                     /* no problem */
        "plan 1 2 hot a b c d ",                    /* an empty problem */
        "plan 1  2 hot a b c d conv",               /* an empty word */
        "plan -1 2 hot a b c d conv",               /* a number below 0 */
        "plan 1 2 warm a b c d conv",               /* no such tier */
        "plan 9007199254740993 2 hot a b c d conv", /* a number above 2^53 */
        "plan 1 2 hot a b c d conv \x1b[31m",       /* an escape sequence */
        "object hot 1 15ba9f68351e",                /* a short key */
        "object hot 1 " KEY " more",                /* a word too many */
        "object hot 1 " KEY " ",                    /* a blank too many */
        "cut bytes ",
    };
    struct trace_line line;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        if (parse(lines[i], &line) != TRACE_DAMAGED)
            fail_msg("'%s' was accepted", lines[i]);
}

TEST(plain, a_line_that_is_too_long_is_refused)
{
    char text[TRACE_LINE_MAX + 1];
    struct trace_line line;
    memset(text, 'x', sizeof(text));
    memcpy(text, "cut ", 4);
    text[TRACE_LINE_MAX - 1] = '\0';
    assert_int_equal(parse(text, &line), TRACE_VALID);
    text[TRACE_LINE_MAX - 1] = 'x';
    text[TRACE_LINE_MAX] = '\0';
    assert_int_equal(parse(text, &line), TRACE_DAMAGED);
}

TEST(plain, what_a_line_cannot_express_is_not_written)
{
    BUFFER_AUTO struct buffer text;
    struct trace_line line = { .kind = TRACE_PLAN,
                               .target = bytes_of_text("two words"),
                               .rest = bytes_of_text("conv") };
    buffer_init(&text, TRACE_LINE_MAX);
    assert_false(trace_line_write(&line, &text));
    line.target = bytes_of_text("gfx90a");
    line.rest = bytes_of_text("conv\nplan");
    assert_false(trace_line_write(&line, &text));
    assert_int_equal(text.size, 0);
    line.rest = bytes_of_text("conv");
    line.waited_us = UINT64_MAX;
    assert_true(trace_line_write(&line, &text));
    buffer_put_u8(&text, '\0');
    assert_string_equal((const char *)text.data, "plan 0 9007199254740992 hot gfx90a - - - conv\n");
}
