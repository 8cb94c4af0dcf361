/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * MIOpenDriver command lines: "conv -n 64 -c 3 -H 224 ... -F 1", with any path to the program in
 * front, as people type them and as MIOPEN_ENABLE_LOGGING_CMD=1 logs them.  Nobody else reads or
 * lists these flags: see common/driver_flags.def.
 *
 * Threading  pure functions
 */
#include "common/problem.h"

#define DRIVER_WORDS_MAX 128
#define DRIVER_SOLVER_MAX 64 /* letters of a name, with its end */

struct driver_line {
    struct problem problem; /* of direction FORWARD; directions below */
    unsigned directions;    /* mask as -F has it: 1 forward, 2 data, 4 weights; 0 was made 7 */
    unsigned iterations;    /* -i; 0 was made 1 */
    bool verify;            /* -V */
    bool time;              /* -t */
    bool wall;              /* -w */
    bool search;            /* -s */
    char solver[DRIVER_SOLVER_MAX]; /* -S as given; "" for 0 and -1, which leave the choice */
    bool transposed;                /* -m trans: x and y of |problem| are already exchanged */
};

/* |words| are the command line's, program and "conv" included; anything before the word conv,
 * convfp16, convbfp16 or convint8 is a path or a log prefix and skipped.  The sentence names the
 * flag and the value. */
KILN_MUST_CHECK enum kiln_code driver_words_parse(const char *const *words, size_t count,
                                                  struct driver_line *ret_line,
                                                  struct kiln_err *err);
/* Splits |text| at blanks (quotes '"' and "'" around a word group) and parses.  KILN_NOT_FOUND
 * without a sentence for a blank line or a comment ('#'). */
KILN_MUST_CHECK enum kiln_code driver_line_parse(struct bytes text, struct driver_line *ret_line,
                                                 struct kiln_err *err);
/* The |index|-th problem of the mask, forward first, with its direction set; false when there is
 * none.  For a transposed line forward and data change places, as MIOpen's do. */
bool driver_line_problem(const struct driver_line *line, unsigned index,
                         struct problem *ret_problem);
/* The |index|-th flag for --help: its help, letter (0: none) and long name; NULL after the last. */
const char *driver_flag(size_t index, char *ret_letter, const char **ret_name);
