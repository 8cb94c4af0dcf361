/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * MIOpenDriver command lines: "conv -n 64 -c 3 -H 224 ... -F 1", as people type them and as
 * MIOPEN_ENABLE_LOGGING_CMD=1 logs them.  A path to the program may come first.  This is the only
 * parser of these flags; common/miopen/driver_flags.def lists them.
 *
 * Ownership  plain values; words and texts are borrowed during the call
 * Threading  pure functions
 */
#include "common/protocol/problem.h"

#define DRIVER_WORDS_MAX 128
#define DRIVER_SOLVER_MAX 64 /* maximum bytes of a name, with the terminating NUL */

struct driver_line {
    struct problem problem; /* with direction FORWARD; see |directions| */
    unsigned directions;    /* mask given with -F: 1 forward, 2 data, 4 weights; 0 is stored as 7 */
    unsigned iterations;    /* value of -i; 0 is stored as 1 */
    bool verify;            /* -V */
    bool time;              /* -t */
    bool wall;              /* -w */
    bool search;            /* -s */
    /* Value of -S as given; "" for 0 and -1, which mean any solver. */
    char solver[DRIVER_SOLVER_MAX];
    /* -m trans was given; x and y of |problem| are already exchanged. */
    bool transposed;
};

/* Parses a command line.  |words| are all its words, including the program's path and "conv".
 * Everything before the word conv, convfp16, convbfp16 or convint8 is a path or a log prefix, and
 * is skipped.  The error message names the flag and the value. */
KILN_MUST_CHECK enum kiln_code driver_words_parse(const char *const *words, size_t count,
                                                  struct driver_line *ret_line,
                                                  struct kiln_err *err);
/* Splits |text| at blanks and parses the words; a word may be quoted with '"' or "'".  Returns
 * KILN_NOT_FOUND without a message for a blank line or a comment ('#'). */
KILN_MUST_CHECK enum kiln_code driver_line_parse(struct bytes text, struct driver_line *ret_line,
                                                 struct kiln_err *err);
/* Returns the |index|-th problem that |directions| selects, with its direction set.  The order is
 * forward, data, weights.  Returns false if there is no such problem.  In a transposed line,
 * forward and data are exchanged, as in MIOpen. */
bool driver_line_problem(const struct driver_line *line, unsigned index,
                         struct problem *ret_problem);
/* Returns the description of the |index|-th flag, for --help, with its long name and its letter (0
 * if it has none).  Returns NULL after the last flag. */
const char *driver_flag(size_t index, char *ret_letter, const char **ret_name);
