/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Output for people: aligned tables, colours on terminals only, and no control characters from
 * untrusted text.
 *
 * Ownership  a table owns copies of its cells
 * Threading  one thread for each table
 */
#include "cli/fail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json;

enum colour { COLOUR_NONE, COLOUR_BOLD, COLOUR_GREEN, COLOUR_RED, COLOUR_YELLOW };

/* Returns true if |out| is a terminal, NO_COLOR is unset or empty, and TERM is set and not
 * "dumb". */
bool output_has_colour(FILE *out);
/* Overwrites control bytes and invalid UTF-8 with '?'.  |keep_lines| keeps line feeds and tabs. */
void output_clean(char *text, bool keep_lines);
void output_lines(FILE *out, const char *indent, const char *text);
/* Prints "<program>: <message>", then the compiler's log if there is one, then |advice|, which may
 * be NULL. */
void output_error(FILE *out, const char *program, const struct kiln_error *err, const char *advice);
/* Prints |text| so that a shell reads it as one word.  Prints quotes only if they are needed,
 * because Slurm's TaskProlog does not interpret quotes. */
void output_shell_word(const char *text);
/* Prints one line of JSON on standard output.  Invalid UTF-8 becomes '?'. */
CLI_MUST_CHECK int output_json(const struct json *json, struct kiln_error *err);
/* Like output_json, for JSON that is already text.  Modifies |text|. */
void output_json_text(char *text);

enum align { ALIGN_LEFT, ALIGN_RIGHT };

struct column {
    const char *title; /* NULL in every column if the table has no heading */
    enum align align;
};

struct table;

/* |columns| is borrowed and must outlive the table.  Returns NULL if out of memory. */
struct table *table_create(const struct column *columns, size_t count);
void table_destroy(struct table *table);
/* Adds the next cell, row by row. table_print reports a failure of this function. */
void table_cell(struct table *table, const char *fmt, ...) CLI_PRINTF(2, 3);
void table_cell_in(struct table *table, enum colour colour, const char *fmt, ...) CLI_PRINTF(3, 4);
void table_count(struct table *table, const char *name, uint64_t count);
void table_seconds(struct table *table, const char *name, double seconds);
/* Accepts NULL, which it reports as out of memory. */
CLI_MUST_CHECK int table_print(const struct table *table, FILE *out, struct kiln_error *err);

static inline void table_auto(struct table **table) { table_destroy(*table); }
