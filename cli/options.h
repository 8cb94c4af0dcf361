/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Command-line options from tables.
 *
 * Role       a table defines each option: name, value type, destination and --help text
 * Forms      --name VALUE, --name=VALUE, -n VALUE, -nVALUE; "--" ends the options
 * Ownership  strings are borrowed from the command line; lists own their arrays
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
    OPTION_LIST,     /* struct option_list: the value and the arguments up to the next option */
};

struct option_number {
    uint64_t value;
    bool given;
};

struct option_list {
    const char **words; /* owned; the strings are borrowed */
    size_t count;
};

struct option {
    const char *name;
    char letter; /* 0 means none */
    enum option_kind kind;
    size_t offset;
    const char *value; /* name of the value in --help; NULL for flags */
    const char *help;
    uint64_t least, most;
};

/* |values| is the struct that the options' offsets refer to.  The values may be preset. */
struct option_table {
    const struct option *options;
    size_t count;
    void *values;
};

struct option_parser {
    const struct option_table *tables;
    size_t table_count;
    bool stop_at_word; /* the first argument that is not an option ends the options */
    bool pass_unknown;
};

/* Returns the edit distance between |a| (up to a '=') and |b|.  An edit changes, inserts or removes
 * a character, or exchanges two neighbours.  Returns 24 if |b| has more than 24 characters, or |a|
 * more than 48. */
size_t options_distance(const char *a, const char *b);

struct suggestion {
    /* Smallest distance so far.  The caller initialises it to the largest distance at which a name
     * is still suggested. */
    size_t edits;
    char names[160]; /* such as "'status' or 'stats'"; empty if there are none */
};
void suggestion_add(struct suggestion *s, const char *name, size_t edits);

/* Parses the options and fills |words| with the other arguments.  The message of KILN_E_INVALID
 * names the wrong option.  The caller releases |words| and the tables' values even on failure. */
CLI_MUST_CHECK int options_parse(const struct option_parser *parser, int argc,
                                 const char *const *argv, struct option_list *words,
                                 struct kiln_error *err);
void options_done(const struct option_table *tables, size_t table_count);
void option_list_done(struct option_list *list);

void options_print_help(const struct option_table *table, FILE *out);
