/* SPDX-License-Identifier: MIT */
#pragma once

/* Reads the problems of a file with one MIOpenDriver command line per line, such as
 * scripts/networks/resnet50.txt. */
#include "tests/support/test.h"

#include <kiln/kiln.h>

#include <stdio.h>
#include <string.h>

/* Returns the number of problems, which is at most |max|. */
static inline size_t problem_lines_read(const char *path, struct kiln_problem *problems, size_t max)
{
    char line[2048];
    size_t total = 0;
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        struct kiln_error err = { 0 };
        unsigned count = 0;
        line[strcspn(line, "\n")] = '\0';
        if (!line[0] || line[0] == '#')
            continue;
        assert_true(total + 3 <= max);
        must(kiln_problem_from_driver(line, problems + total, &count, &err), err);
        total += count;
    }
    fclose(file);
    return total;
}
