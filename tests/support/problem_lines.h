/* SPDX-License-Identifier: MIT */
#pragma once

/* Reads the problems of a file that has one MIOpenDriver command per line, such as
 * scripts/networks/resnet50.txt. */
#include "cli/lines.h"
#include "tests/support/test.h"

#include <kiln/kiln.h>

static inline size_t problem_lines_read(const char *path, struct kiln_problem *problems, size_t max)
{
    LINE_FILE_AUTO struct line_file file = { 0 };
    struct kiln_error err = { 0 };
    size_t total = 0;
    must(line_file_read(path, &file, &err), err);
    for (size_t i = 0; i < file.count; i++) {
        unsigned count = 0;
        assert_true(total + 3 <= max);
        must(kiln_problem_from_driver(file.lines[i].text, problems + total, &count, &err), err);
        total += count;
    }
    return total;
}
