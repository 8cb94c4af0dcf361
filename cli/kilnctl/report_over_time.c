/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/report_chart.h"
#include "cli/kilnctl/report_html.h"
#include "cli/kilnctl/report_page.h"
#include "common/base/units.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Maximum number of columns: as many samples as kilnd returns, and a few for the current period. */
#define COLUMNS_MAX 2100
/* Minimum length of the time axis, in columns.  If kilnd is new and has fewer samples, their
 * columns are thin and at the right. */
#define COLUMNS_MIN 24
#define TICKS_MIN 32

static const char *const tiers[] = { "hot", "disk", "package", "fleet" };
enum { TIERS = 4 };

struct columns {
    struct chart_column items[COLUMNS_MAX];
    size_t count;
    double most;
};

struct range {
    uint64_t begin, end;
};

static void add_column(struct columns *all, const struct chart_column *column)
{
    double sum = 0;
    for (int i = 0; i < CHART_LAYERS; i++)
        sum += column->layers[i];
    if (all->count == COLUMNS_MAX || !(sum > 0))
        return;
    all->items[all->count++] = *column;
    all->most = sum > all->most ? sum : all->most;
}

/* A recorded sample has the time at which its period began.  The current sample, which kilnd has
 * not recorded yet, has the time at which its period ends. */
static struct chart_column column_of(const struct json *sample, bool is_current)
{
    struct chart_column column = { .time = json_get_u64(sample, "time", 0),
                                   .span_s = json_get_u64(sample, "span_s", 0) };
    if (is_current && column.time > column.span_s)
        column.time -= column.span_s;
    return column;
}

static void add_hits(struct columns *all, const struct json *sample, bool is_current)
{
    char when[UNITS_TEXT_MAX], count[UNITS_TEXT_MAX];
    struct chart_column column = column_of(sample, is_current);
    const struct json *reasons = json_get(sample, "miss_reasons");
    double sum = column.layers[TIERS] =
        json_get_number(sample, "misses", 0) - json_get_number(reasons, "uncached", 0);
    for (int i = 0; i < TIERS; i++)
        sum += column.layers[i] = json_get_number(json_get(sample, "hits"), tiers[i], 0);
    for (int i = 0; i < CHART_LAYERS && sum > 0; i++)
        column.layers[i] *= 100 / sum;
    snprintf(column.label, sizeof(column.label), "%s: %.1f %% of %s found",
             units_when(column.time, when), 100 - column.layers[TIERS],
             units_kernels(sum > 0 ? (uint64_t)sum : 0, count));
    add_column(all, &column);
}

static void add_saved(struct columns *all, const struct json *sample, bool is_current)
{
    char when[UNITS_TEXT_MAX], saved[UNITS_TEXT_MAX], spent[UNITS_TEXT_MAX];
    struct chart_column column = column_of(sample, is_current);
    column.layers[0] = json_get_number(sample, "saved_s", 0);
    column.layers[1] = json_get_number(sample, "compile_s", 0);
    snprintf(column.label, sizeof(column.label), "%s: %s saved, %s compiled",
             units_when(column.time, when), units_seconds(column.layers[0], saved),
             units_seconds(column.layers[1], spent));
    add_column(all, &column);
}

static void collect_columns(const struct json *history, struct columns *all,
                            void (*one)(struct columns *, const struct json *, bool))
{
    all->count = 0;
    all->most = 0;
    for (const struct json *j = json_first(json_get(history, "samples")); j; j = json_next(j))
        one(all, j, false);
    if (json_get(history, "current"))
        one(all, json_get(history, "current"), true);
}

static struct range round_range(struct range range)
{
    static const uint64_t units[] = { 300,   600,   1800,  3600,  7200,
                                      10800, 21600, 43200, 86400, 2 * 86400 };
    enum { UNITS = sizeof(units) / sizeof(units[0]) };
    size_t i = 0;
    while (i + 1 < UNITS && units[i] * TICKS_MIN < range.end - range.begin)
        i++;
    struct tm local = { 0 };
    time_t begin = (time_t)range.begin;
    int64_t east = localtime_r(&begin, &local) ? local.tm_gmtoff : 0;
    uint64_t unit = units[i], late = (uint64_t)((int64_t)range.begin + east) % unit;
    range.begin -= late;
    uint64_t halves = (range.end - range.begin + 2 * unit - 1) / (2 * unit);
    range.end = range.begin + 2 * halves * unit;
    return range;
}

static struct range range_of(const struct report *r, const struct columns *all)
{
    uint64_t end = json_get_u64(r->history, "now", r->now);
    uint64_t step = json_get_u64(r->history, "step_s", 300), begin = all->items[0].time;
    uint64_t latest = step < UINT32_MAX && end > COLUMNS_MIN * step ? end - COLUMNS_MIN * step : 0;
    begin = begin < latest ? begin : latest;
    return round_range((struct range){ .begin = begin, .end = end > begin ? end : begin + 1 });
}

static void write_hits(const struct report *r, const struct columns *all, FILE *out)
{
    const struct range range = range_of(r, all);
    const struct chart chart = {
        .name = "share of kernels found, by place, over time",
        .classes = { "hot", "disk", "package", "fleet", "miss" },
        .words = { "memory", "disk", "packages", "fleet", "not found" },
        .columns = all->items,
        .count = all->count,
        .begin = range.begin,
        .end = range.end,
        .top = 100,
        .top_label = "100 %",
        .middle_label = "50 %",
    };
    chart_write(&chart, out);
}

static void write_saved(const struct report *r, const struct columns *all, FILE *out)
{
    char top[UNITS_TEXT_MAX], middle[UNITS_TEXT_MAX];
    const struct range range = range_of(r, all);
    const double most = chart_round_top(all->most);
    const struct chart chart = {
        .name = "compile time saved and spent over time",
        .classes = { "disk", "miss" },
        .words = { "saved", "spent compiling" },
        .columns = all->items,
        .count = all->count,
        .begin = range.begin,
        .end = range.end,
        .top = most,
        .top_label = units_seconds(most, top),
        .middle_label = units_seconds(most / 2, middle),
    };
    chart_write(&chart, out);
}

void report_over_time(const struct report *r, FILE *out)
{
    char step[UNITS_TEXT_MAX];
    struct columns *all = malloc(sizeof(*all));
    fputs("<section><h2>Hit rate over time</h2>", out);
    html_element(out, "p", "soft", "Each column is %s.",
                 units_seconds((double)json_get_u64(r->history, "step_s", 300), step));
    if (all)
        collect_columns(r->history, all, add_hits);
    if (!all || all->count == 0)
        fputs("<p class=\"none\">No kernel has been requested yet. Once jobs run, this chart shows "
              "how many of their kernels were found.</p>",
              out);
    else
        write_hits(r, all, out);
    fputs("</section>\n<section><h2>Time saved</h2>"
          "<p class=\"soft\">Each kernel that was found saves the time that compiling it took.</p>",
          out);
    if (all)
        collect_columns(r->history, all, add_saved);
    if (!all || all->count == 0)
        fputs("<p class=\"none\">Nothing was compiled or saved in this period.</p>", out);
    else
        write_saved(r, all, out);
    fputs("</section>\n", out);
    free(all);
}
