/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * MIOpenDriver command lines: "conv -n 64 -c 3 -H 224 ... -F 1", as people type them and as
 * MIOPEN_ENABLE_LOGGING_CMD=1 logs them.  common/miopen/driver_flags.def lists the flags.
 *
 * Ownership  plain values; words and texts are borrowed during the call
 * Threading  pure functions
 */
#include "common/protocol/problem.h"

#define DRIVER_WORDS_MAX 128
#define DRIVER_SOLVER_MAX 64

struct driver_line {
    struct problem problem; /* with direction FORWARD; see |directions| */
    unsigned directions;    /* mask given with -F: 1 forward, 2 data, 4 weights; 0 is stored as 7 */
    unsigned iterations;    /* value of -i; 0 is stored as 1 */
    bool verify;
    bool time;
    bool wall;
    bool search;
    /* Value of -S as given; "" for 0 and -1, which mean any solver. */
    char solver[DRIVER_SOLVER_MAX];
    /* True for -m trans. x and y of |problem| are then exchanged already. */
    bool transposed;
};

/* |words| are all words of the command line, with the program's path.  Everything before the word
 * conv, convfp16, convbfp16 or convint8 is skipped as a path or a log prefix.  The error message
 * names the flag and the value. */
KILN_MUST_CHECK enum kiln_code driver_words_parse(const char *const *words, size_t count,
                                                  struct driver_line *ret_line,
                                                  struct kiln_err *err);
/* Splits |text| at blanks and parses the words; a word may be quoted with '"' or "'".  Returns
 * KILN_NOT_FOUND without a message for a blank line or a comment ('#'). */
KILN_MUST_CHECK enum kiln_code driver_line_parse(struct bytes text, struct driver_line *ret_line,
                                                 struct kiln_err *err);
/* Returns the |index|-th problem that |directions| selects, in the order forward, data, weights.
 * Returns false if there is no such problem.  In a transposed line, forward and data are exchanged,
 * as in MIOpen. */
bool driver_line_problem(const struct driver_line *line, unsigned index,
                         struct problem *ret_problem);
/* Returns the description of the |index|-th flag for --help, with its name and its letter (0:
 * none).  Returns NULL after the last flag. */
const char *driver_flag(size_t index, char *ret_letter, const char **ret_name);
