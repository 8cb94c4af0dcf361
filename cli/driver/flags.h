/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * MIOpenDriver's flags that say how to run a problem, not what it is: -V -t -i -w -s -S.  What
 * belongs to the problem is libkiln's to read (kiln_problem_from_driver).
 *
 * Ownership  words own their text; a solver's name is borrowed from the words
 * Threading  pure functions
 */
#include "cli/fail.h"

#include <stdbool.h>

#define FLAG_WORDS_MOST 128

/* A command line taken apart at blanks; quotes '"' and "'" group. */
struct flag_words {
    char *text; /* owned */
    const char *words[FLAG_WORDS_MOST];
    size_t count;
};

CLI_MUST_CHECK int flag_words_split(const char *line, struct flag_words *ret_words,
                                    struct kiln_error *err);
void flag_words_done(struct flag_words *words);
#define FLAG_WORDS_AUTO __attribute__((cleanup(flag_words_done)))
/* The other way, with quotes where a word needs them.  The caller frees the line. */
CLI_MUST_CHECK int flag_words_join(const char *const *words, size_t count, char **ret_line,
                                   struct kiln_error *err);

#define FLAG_SOLVER_MOST 64

struct run_flags {
    bool verify;                   /* -V, 1 unless told */
    bool time;                     /* -t */
    bool wall;                     /* -w */
    unsigned iterations;           /* -i, 10 unless told */
    char solver[FLAG_SOLVER_MOST]; /* -S; "": the best */
};

/* Flags of other meaning are skipped together with their values.  KILN_E_UNSUPPORTED for -s 1. */
CLI_MUST_CHECK int run_flags_parse(const char *const *words, size_t count,
                                   struct run_flags *ret_flags, struct kiln_error *err);
/* MIOpenDriver's flags of conv, for --help. */
const char *run_flags_help(void);
