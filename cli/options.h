/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Command-line options from tables.
 *
 * Role       one table says how an option is written, what it takes, where its value goes and
 *            what --help says about it
 * Forms      --name VALUE, --name=VALUE, -n VALUE, -nVALUE; "--" ends the options
 * Ownership  texts are borrowed from the command line; lists and words own their arrays
 * Threading  no shared state
 */
#include "cli/fail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_kind {
    OPTION_FLAG,     /* bool */
    OPTION_TEXT,     /* const char *, not empty */
    OPTION_VERBATIM, /* const char *, may be empty */
    OPTION_NUMBER,   /* struct option_number, within least..most */
    OPTION_SIZE,     /* struct option_number, bytes; units_parse_size */
    OPTION_TIME,     /* struct option_number, milliseconds; units_parse_time */
    OPTION_LIST, /* struct option_list: the value and the words after it, up to the next option */
};

struct option_number {
    uint64_t value;
    bool given;
};

struct option_list {
    const char **words; /* owned; the texts are borrowed */
    size_t count;
};

struct option {
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    enum option_kind kind;
    size_t offset;     /* of the value in the table's struct */
    const char *value; /* what --help calls the value; NULL for flags */
    const char *help;
    uint64_t least, most; /* of a number */
};

/* A table and the zeroed or preset struct that its offsets point into. */
struct option_table {
    const struct option *options;
    size_t count;
    void *values;
};

struct option_parser {
    const struct option_table *tables;
    size_t table_count;
    bool stop_at_word; /* from the first word that is no option, everything is a word */
    bool pass_unknown; /* unknown options are words, too */
};

/* Letters to change, leave out or put in between |a| (up to a '=') and |b|: for "did you mean".
 * 24 where |b| has more than 24. */
size_t options_distance(const char *a, const char *b);

/* Words that are no options.  KILN_E_INVALID names the option at fault and, where there is one,
 * the option that was probably meant.  What was filled is to be released even on failure. */
CLI_MUST_CHECK int options_parse(const struct option_parser *parser, int argc,
                                 const char *const *argv, struct option_list *words,
                                 struct kiln_error *err);
/* Releases the lists in the tables' values. */
void options_done(const struct option_table *tables, size_t table_count);
void option_list_done(struct option_list *list);

/* One or more lines an option: "  -c, --count N   pings to send". */
void options_print_help(const struct option_table *table, FILE *out);
