/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/show.h"

#include "cli/output.h"
#include "common/base/bytes.h"
#include "common/base/units.h"

#include <string.h>

/* Maximum depth of an object that is printed. kilnd's own replies are less deep.  The limit keeps a
 * malicious reply from exhausting the stack. */
#define DEPTH_MAX 8
#define NAME_LENGTH_MAX 256

static const char *show_size(double value, char text[UNITS_TEXT_MAX])
{
    return units_size((uint64_t)value, text);
}

static const char *show_ms(double value, char text[UNITS_TEXT_MAX])
{
    return units_seconds(value / 1e3, text);
}

static const char *show_ns(double value, char text[UNITS_TEXT_MAX])
{
    return units_seconds(value / 1e9, text);
}

static const char *show_when(double value, char text[UNITS_TEXT_MAX])
{
    return units_when((uint64_t)value, text);
}

static const struct {
    const char *ending;
    const char *(*format)(double value, char text[UNITS_TEXT_MAX]);
} formats[] = {
    { "bytes", show_size },  { "size", show_size },      { "limit", show_size },
    { "stored", show_size }, { "_ns", show_ns },         { "_ms", show_ms },
    { "_s", units_seconds }, { "created", show_when },   { "last_used", show_when },
    { "time", show_when },   { "installed", show_when }, { "signed", show_when },
};

static void show_number(const char *name, double value, char *text, size_t size)
{
    char unit[UNITS_TEXT_MAX];
    bool whole = value >= 0 && value < 9e15 && value == (double)(uint64_t)value;
    for (size_t i = 0; value >= 0 && value < 1e18 && i < sizeof(formats) / sizeof(formats[0]);
         i++) {
        if (text_ends_with(name, formats[i].ending)) {
            snprintf(text, size, "%s", formats[i].format(value, unit));
            return;
        }
    }
    if (whole && !text_ends_with(name, "pid") && !text_ends_with(name, "uid"))
        snprintf(text, size, "%s", units_count((uint64_t)value, unit));
    else
        snprintf(text, size, "%.10g", value);
}

const char *show_value(const char *name, const struct json *value, char *text, size_t size)
{
    if (json_is_text(value)) {
        snprintf(text, size, "%s", json_as_text(value, ""));
    } else if (json_is_number(value)) {
        show_number(name, json_as_number(value, 0), text, size);
    } else if (json_is_bool(value)) {
        snprintf(text, size, "%s", json_as_bool(value, false) ? "yes" : "no");
    } else {
        KILN_AUTO(mem) char *json = value ? json_print(value, false) : NULL;
        snprintf(text, size, "%s", json ? json : "-");
    }
    return text;
}

static bool has_trees(const struct json *json)
{
    for (const struct json *j = json_first(json); j; j = json_next(j))
        if (json_is_object(j) || json_is_array(j))
            return true;
    return false;
}

static void add_line(struct table *table, const char *name, const struct json *value)
{
    char text[1024];
    table_cell(table, "%s", name);
    table_cell(table, "%s", show_value(name, value, text, sizeof(text)));
}

static void add_members(struct table *table, const char *prefix, const struct json *json,
                        unsigned depth)
{
    unsigned index = 0;
    for (const struct json *j = json_first(json); j; j = json_next(j), index++) {
        char name[NAME_LENGTH_MAX];
        const char *own = json_name(j);
        const char *dot = *prefix ? "." : "";
        if (own)
            snprintf(name, sizeof(name), "%s%s%s", prefix, dot, own);
        else
            snprintf(name, sizeof(name), "%s%s%u", prefix, dot, index);
        bool open = (json_is_object(j) && json_count(j) > 0) || (json_is_array(j) && has_trees(j));
        if (open && depth < DEPTH_MAX)
            add_members(table, name, j, depth + 1);
        else
            add_line(table, name, j);
    }
}

int show_object(const struct json *object, FILE *out, struct kiln_error *err)
{
    static const struct column columns[] = { { NULL, ALIGN_LEFT }, { NULL, ALIGN_LEFT } };
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 2);
    add_members(table, "", object, 0);
    return table_print(table, out, err);
}
