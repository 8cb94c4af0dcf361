/* SPDX-License-Identifier: MIT */
#include "cli/lines.h"
#include "cli/problem_set.h"
#include "tests/support/test.h"
#include "tests/support/test_files.h"
#include "tests/unit/cli/scratch_directory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fixture {
    char path[512];
    struct line_file file;
    struct problem_set set;
    struct kiln_error err;
};

SET_UP(set_up) { scratch_create(test_directory(), "lines", "", f->path); }

TEAR_DOWN(tear_down)
{
    line_file_done(&f->file);
    problem_set_done(&f->set);
}

FIXTURE(problems, set_up, tear_down);

static struct kiln_problem a_problem(uint32_t n, uint32_t k)
{
    return (
        struct kiln_problem){ .size = sizeof(struct kiln_problem), .n = n, .k = k, .groups = 1 };
}

TEST_F(problems, blank_lines_and_comments_are_skipped_and_line_numbers_stay_right)
{
    static const char text[] = "# head\n\n  conv -n 1 \r\n\t# more\nconv -n 2";
    test_write_text(f->path, text);

    assert_int_equal(line_file_read(f->path, &f->file, &f->err), KILN_E_OK);

    assert_int_equal(f->file.count, 2);
    assert_string_equal(f->file.lines[0].text, "conv -n 1");
    assert_int_equal(f->file.lines[0].number, 3);
    assert_string_equal(f->file.lines[1].text, "conv -n 2");
    assert_int_equal(f->file.lines[1].number, 5);
}

TEST_F(problems, an_empty_file_has_no_lines)
{
    assert_int_equal(line_file_read(f->path, &f->file, &f->err), KILN_E_OK);
    assert_int_equal(f->file.count, 0);
}

TEST_F(problems, a_binary_file_is_refused_by_line)
{
    test_write(f->path, bytes_of("conv\n\0\n", 7));
    assert_int_equal(line_file_read(f->path, &f->file, &f->err), KILN_E_INVALID);
    assert_non_null(strstr(f->err.text, "line 2"));
}

TEST_F(problems, a_missing_file_is_named)
{
    assert_int_equal(line_file_read("/nonexistent/kiln", &f->file, &f->err), KILN_E_IO);
    assert_non_null(strstr(f->err.text, "'/nonexistent/kiln'"));
}

TEST_F(problems, repeated_problems_are_counted_once)
{
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 1000; i++) {
            struct kiln_problem p = a_problem(i % 10 + 1, i / 10 + 1);
            p.size += round; /* not part of the problem's identity */
            assert_int_equal(problem_set_add(&f->set, &p, i + 1, &f->err), KILN_E_OK);
        }
    }
    assert_int_equal(f->set.count, 1000);
    assert_int_equal(f->set.repeats, 1000);
    assert_int_equal(f->set.problems[999].n, 10);
    assert_int_equal(f->set.lines[999], 1000);
}
