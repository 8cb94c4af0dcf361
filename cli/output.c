/* SPDX-License-Identifier: MIT */
#include "cli/output.h"

#include "common/base/array.h"
#include "common/base/json.h"
#include "common/base/units.h"
#include "common/base/utf8.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool output_has_colour(FILE *out)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    if (no_color && *no_color)
        return false;
    return isatty(fileno(out)) && term && strcmp(term, "dumb") != 0;
}

static size_t character_size(const unsigned char *at, bool *ret_fine)
{
    size_t size = utf8_size(at);
    *ret_fine = size > 0 && !utf8_control(at);
    /* A byte that is not UTF-8 counts as one character, which is not printed: on an 8-bit terminal,
     * it may begin an escape sequence. */
    return size ? size : 1;
}

void output_clean(char *text, bool keep_lines)
{
    for (unsigned char *at = (unsigned char *)text; *at;) {
        bool fine;
        size_t size = character_size(at, &fine);
        bool kept = keep_lines && (*at == '\n' || *at == '\t');
        if (!fine && !kept)
            memset(at, '?', size);
        at += size;
    }
}

static void print_line(FILE *out, const char *line, size_t size)
{
    for (size_t at = 0, step; at < size; at += step) {
        bool fine;
        step = character_size((const unsigned char *)line + at, &fine);
        fwrite(fine || line[at] == '\t' ? line + at : "??", 1, step, out);
    }
    putc('\n', out);
}

void output_lines(FILE *out, const char *indent, const char *text)
{
    for (const char *line = text; *line;) {
        size_t size = strcspn(line, "\n");
        if (size > 0) {
            fputs(indent, out);
            print_line(out, line, size);
        }
        line += size + (line[size] == '\n');
    }
}

void output_error(FILE *out, const char *program, const struct kiln_error *err, const char *advice)
{
    char text[sizeof(err->text)];
    snprintf(text, sizeof(text), "%s", err->text[0] ? err->text : kiln_error_text(err->code));
    output_clean(text, false);
    fprintf(out, "%s: %s\n", program, text);
    if (err->log[0])
        output_lines(out, "  | ", err->log);
    if (advice)
        fprintf(out, "%s: %s\n", program, advice);
}

static void make_utf8(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at;) {
        size_t size = utf8_size(at);
        if (size == 0)
            *at = '?';
        at += size ? size : 1;
    }
}

void output_json_text(char *text)
{
    make_utf8(text);
    puts(text);
}

void output_shell_word(const char *text)
{
    bool is_plain = true;
    for (const char *c = text; *c && is_plain; c++)
        is_plain = isalnum((unsigned char)*c) || strchr("/._-+,:@%=", *c);
    if (!is_plain)
        putchar('\'');
    for (const char *c = text; *c; c++) {
        if (*c == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*c);
    }
    if (!is_plain)
        putchar('\'');
}

int output_json(const struct json *json, struct kiln_error *err)
{
    KILN_AUTO(mem) char *text = json_print(json, false);
    if (!text)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory while printing JSON");
    output_json_text(text);
    return KILN_E_OK;
}

struct cell {
    char *text;
    enum colour colour;
};

struct table {
    const struct column *columns;
    size_t column_count;
    struct cell *cells;
    size_t count, capacity;
    bool failed;
};

struct table *table_create(const struct column *columns, size_t count)
{
    struct table *table = calloc(1, sizeof(*table));
    if (!table)
        return NULL;
    table->columns = columns;
    table->column_count = count;
    return table;
}

void table_destroy(struct table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i].text);
    free(table->cells);
    free(table);
}

static CLI_PRINTF(3, 0) void add_cell(struct table *table, enum colour colour, const char *fmt,
                                      va_list args)
{
    char *text = NULL;
    if (!table || table->failed)
        return;
    if (vasprintf(&text, fmt, args) < 0) {
        table->failed = true;
        return;
    }
    if (!ARRAY_RESERVE(table->cells, table->count, table->capacity, 64)) {
        free(text);
        table->failed = true;
        return;
    }
    output_clean(text, false);
    table->cells[table->count++] = (struct cell){ .text = text, .colour = colour };
}

void table_cell(struct table *table, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_cell(table, COLOUR_NONE, fmt, args);
    va_end(args);
}

void table_cell_in(struct table *table, enum colour colour, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_cell(table, colour, fmt, args);
    va_end(args);
}

void table_count(struct table *table, const char *name, uint64_t count)
{
    char text[UNITS_TEXT_MAX];
    table_cell(table, "%s", name);
    table_cell(table, "%s", units_count(count, text));
}

void table_seconds(struct table *table, const char *name, double seconds)
{
    char text[UNITS_TEXT_MAX];
    table_cell(table, "%s", name);
    table_cell(table, "%s", units_seconds(seconds, text));
}

static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static const char *colour_code(enum colour colour)
{
    static const char *const codes[] = { "", "\033[1m", "\033[32m", "\033[31m", "\033[33m" };
    return codes[colour];
}

struct layout_of_table {
    FILE *out;
    size_t *widths;
    bool colour;
};

static void print_cell(const struct table *table, const struct layout_of_table *l, size_t column,
                       const char *text, enum colour colour)
{
    bool last = column + 1 == table->column_count;
    bool paint = l->colour && colour != COLOUR_NONE;
    int gap = (int)(l->widths[column] - width_of(text));
    int before = table->columns[column].align == ALIGN_RIGHT ? gap : 0;
    int after = last ? 0 : gap - before + 2;
    fprintf(l->out, "%*s%s%s%s%*s", before, "", paint ? colour_code(colour) : "", text,
            paint ? "\033[0m" : "", after, "");
    if (last)
        fputc('\n', l->out);
}

static void measure_columns(const struct table *table, size_t *widths)
{
    for (size_t c = 0; c < table->column_count; c++)
        widths[c] = table->columns[c].title ? width_of(table->columns[c].title) : 0;
    for (size_t i = 0; i < table->count; i++) {
        size_t width = width_of(table->cells[i].text);
        size_t *most = &widths[i % table->column_count];
        *most = width > *most ? width : *most;
    }
}

int table_print(const struct table *table, FILE *out, struct kiln_error *err)
{
    size_t *widths = table ? calloc(table->column_count, sizeof(*widths)) : NULL;
    if (!widths || table->failed) {
        free(widths);
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory while laying out a table");
    }
    struct layout_of_table l = { .out = out, .widths = widths, .colour = output_has_colour(out) };
    measure_columns(table, widths);
    for (size_t c = 0; table->columns[0].title && c < table->column_count; c++)
        print_cell(table, &l, c, table->columns[c].title, COLOUR_BOLD);
    for (size_t i = 0; i < table->count; i++)
        print_cell(table, &l, i % table->column_count, table->cells[i].text,
                   table->cells[i].colour);
    free(widths);
    return KILN_E_OK;
}
