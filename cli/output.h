/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What people read: aligned tables, colours on terminals only, no control characters from
 * elsewhere.
 *
 * Ownership  a table owns copies of its cells
 * Threading  one table, one thread
 */
#include "cli/fail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json;

enum colour { COLOUR_NONE, COLOUR_BOLD, COLOUR_GREEN, COLOUR_RED, COLOUR_YELLOW };

/* A terminal, NO_COLOR unset or empty, TERM not "dumb". */
bool output_has_colour(FILE *out);
/* Overwrites every control byte (terminal escapes among them) and what is no UTF-8 with '?'; line
 * feeds stay where |keep_lines|. */
void output_clean(char *text, bool keep_lines);
/* Prints |text| cleaned, each line after |indent|. */
void output_lines(FILE *out, const char *indent, const char *text);
/* "<program>: <sentence>", the compiler's log if there is one, then |advice| unless NULL. */
void output_error(FILE *out, const char *program, const struct kiln_error *err, const char *advice);
/* One line of JSON on standard output; bytes that are no UTF-8 become '?'. */
CLI_MUST_CHECK int output_json(const struct json *json, struct kiln_error *err);
/* The same of a text that was put together elsewhere; changes it. */
void output_json_text(char *text);

enum align { ALIGN_LEFT, ALIGN_RIGHT };

struct column {
    const char *title; /* NULL in every column: no heading */
    enum align align;
};

struct table;

/* |columns| is borrowed and must outlive the table.  NULL when out of memory. */
struct table *table_create(const struct column *columns, size_t count);
void table_destroy(struct table *table); /* accepts NULL */
/* The next cell, row by row.  Failure is sticky: table_print reports it. */
void table_cell(struct table *table, const char *fmt, ...) CLI_PRINTF(2, 3);
/* The same in a colour, where there are colours. */
void table_cell_in(struct table *table, enum colour colour, const char *fmt, ...) CLI_PRINTF(3, 4);
/* Two cells: |name|, and a number as people read it. */
void table_count(struct table *table, const char *name, uint64_t count);
void table_seconds(struct table *table, const char *name, double seconds);
/* Accepts NULL: then out of memory is the failure. */
CLI_MUST_CHECK int table_print(const struct table *table, FILE *out, struct kiln_error *err);

static inline void table_auto(struct table **table) { table_destroy(*table); }
