/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The lines of a text file, without blank lines and comments ('#').
 *
 * Ownership  a struct line_file owns its text until line_file_done; lines point into that text
 * Threading  one thread for each struct line_file
 */
#include "cli/fail.h"

#include <stddef.h>

struct line {
    const char *text;
    unsigned number; /* from 1 */
};

struct line_file {
    char *text;
    struct line *lines;
    size_t count;
};

CLI_MUST_CHECK int line_file_read(const char *path, struct line_file *ret_file,
                                  struct kiln_error *err);
void line_file_done(struct line_file *file);
#define LINE_FILE_AUTO __attribute__((cleanup(line_file_done)))
