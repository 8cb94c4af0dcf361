/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/top_page.h"

#include "cli/kilnctl/db_words.h"
#include "common/base/units.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 1024
#define BAR_WIDTH 20

const char *const top_sort_names[TOP_SORTS] = { "age", "program", "user" };

struct writer {
    struct top_page *page;
    size_t width, height;
};

static void clean_line(char *text)
{
    for (; *text; text++) {
        if (*text < ' ' || *text > '~')
            *text = '?';
    }
}

static void put_line(struct writer *w, enum top_style style, const char *fmt, ...) CLI_PRINTF(3, 4);
static void put_line(struct writer *w, enum top_style style, const char *fmt, ...)
{
    struct top_page *page = w->page;
    if (page->count >= TOP_LINES_MAX || page->count >= w->height)
        return;
    char *line = page->lines[page->count];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, TOP_WIDTH_MAX + 1, fmt, args);
    va_end(args);
    clean_line(line);
    if (strlen(line) > w->width)
        line[w->width] = '\0';
    page->styles[page->count++] = style;
}

static void put_rates(struct writer *w, const struct top_view *v)
{
    const struct top_rates *r = v->rates;
    if (r->known)
        put_line(w, TOP_PLAIN, "Requests %.1f/s   kernels requested %.1f/s   compiled %.1f/s",
                 r->requests_s, r->fetches_s, r->compiles_s);
    else
        put_line(w, TOP_PLAIN, "Requests -/s   kernels requested -/s   compiled -/s");
}

static void put_bar(struct writer *w, const char *name, double share, bool known)
{
    char bar[BAR_WIDTH + 1];
    size_t full = (size_t)(share * BAR_WIDTH + 0.5);
    for (size_t i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR_WIDTH] = '\0';
    if (known)
        put_line(w, TOP_PLAIN, "  %-8s %5.1f %%  %s", name, 100 * share, bar);
    else
        put_line(w, TOP_PLAIN, "  %-8s     - %%  %s", name, bar);
}

static void put_hits(struct writer *w, const struct top_rates *r)
{
    put_line(w, TOP_PLAIN, "%s", "");
    put_line(w, TOP_TITLE, "Kernels found");
    for (int i = 0; i < TOP_TIERS; i++)
        put_bar(w, top_tier_names[i], r->hits_share[i], r->has_lookups);
    put_bar(w, "missed", r->misses_share, r->has_lookups);
}

/* Prints how kilnd served programs that compile with NVRTC, hiprtc or comgr. The numbers of kernels
 * in the lines above do not include these compiles. */
static void put_client_compiles(struct writer *w, const struct json *stats)
{
    char saved[UNITS_TEXT_MAX];
    uint64_t hits = json_get_u64(stats, "client_hits", 0),
             stored = json_get_u64(stats, "client_compiles", 0);
    if (hits + stored > 0)
        put_line(w, TOP_PLAIN, "NVRTC, hiprtc or comgr: %llu answered, %llu stored, saved %s",
                 (unsigned long long)hits, (unsigned long long)stored,
                 units_seconds(json_get_number(stats, "client_saved_ms", 0) / 1e3, saved));
}

static void put_fleet(struct writer *w, const struct json *fleet)
{
    const struct json *uploads = json_get(fleet, "uploads");
    char since[UNITS_TEXT_MAX];
    if (!fleet)
        return;
    if (json_get_bool(fleet, "up", false))
        put_line(w, TOP_PLAIN, "Fleet works   leases %s   uploads waiting %llu",
                 json_get_text(fleet, "leases", "?"),
                 (unsigned long long)json_get_u64(uploads, "waiting", 0));
    else
        put_line(w, TOP_WARNING, "Fleet fails since %s: %.200s",
                 units_seconds(json_get_number(fleet, "broken_s", 0), since),
                 json_get_text(fleet, "last_error", ""));
}

static void put_head(struct writer *w, const struct top_view *v)
{
    char up[UNITS_TEXT_MAX], stored[UNITS_TEXT_MAX], limit[UNITS_TEXT_MAX], hot[UNITS_TEXT_MAX];
    char kernels[UNITS_TEXT_MAX];
    const struct json *stats = v->sample->stats, *status = v->sample->status;
    const struct json *store = json_get(status, "store");
    uint64_t clients = json_get_u64(stats, "clients", 0);
    put_line(w, TOP_TITLE, "kilnd %s   pid %llu   up %s   %llu client%s",
             json_get_text(status, "version", "?"),
             (unsigned long long)json_get_u64(status, "pid", 0),
             units_seconds(json_get_number(status, "uptime_s", 0), up), (unsigned long long)clients,
             clients == 1 ? "" : "s");
    put_rates(w, v);
    put_line(w, TOP_PLAIN, "Store %s of %s, %s   hot set %s",
             units_size(json_get_u64(store, "taken_bytes", 0), stored),
             units_size(json_get_u64(store, "limit_bytes", 0), limit),
             units_kernels(json_get_u64(store, "kernels", 0), kernels),
             units_size(json_get_u64(stats, "hot_bytes", 0), hot));
    put_fleet(w, json_get(status, "fleet"));
    put_hits(w, v->rates);
    put_client_compiles(w, stats);
}

static const char *program_of(const struct json *compile)
{
    const char *kind = json_get_text(compile, "kind", "");
    if (strcmp(kind, "probe") == 0)
        return "(tries a compiler)";
    return strcmp(kind, "describe") == 0 ? "(lists compilers)"
                                         : json_get_text(compile, "program", "?");
}

static int by_age(const void *a, const void *b)
{
    double x = json_get_number(*(const struct json *const *)a, "age_s", 0);
    double y = json_get_number(*(const struct json *const *)b, "age_s", 0);
    return (x < y) - (x > y);
}

static int by_program(const void *a, const void *b)
{
    int order = strcmp(program_of(*(const struct json *const *)a),
                       program_of(*(const struct json *const *)b));
    return order ? order : by_age(a, b);
}

static int by_user(const void *a, const void *b)
{
    uint64_t x = json_get_u64(*(const struct json *const *)a, "uid", UINT64_MAX);
    uint64_t y = json_get_u64(*(const struct json *const *)b, "uid", UINT64_MAX);
    return x != y ? (x > y) - (x < y) : by_age(a, b);
}

static void put_compile(struct writer *w, const struct json *j)
{
    char age[UNITS_TEXT_MAX], user[DB_NAME_MAX] = "-";
    if (json_is_number(json_get(j, "uid")))
        db_user_name(j, user);
    put_line(w, TOP_PLAIN, "%9s  %-12.12s %-22.22s %-10.10s %s%s",
             units_seconds(json_get_number(j, "age_s", 0), age), user,
             json_get_text(j, "target", ""), json_get_text(j, "toolchain", ""), program_of(j),
             json_get_bool(j, "prefetch", false) ? " (ahead)" : "");
}

static void put_compiles(struct writer *w, const struct top_view *v)
{
    static int (*const orders[TOP_SORTS])(const void *, const void *) = { by_age, by_program,
                                                                          by_user };
    const struct json *rows[ROWS_MAX];
    size_t count = 0;
    const struct json *all = json_get(v->sample->activity, "compiles");
    for (const struct json *j = json_first(all); j && count < ROWS_MAX; j = json_next(j))
        rows[count++] = j;
    qsort(rows, count, sizeof(rows[0]), orders[v->sort]);
    put_line(w, TOP_PLAIN, "%s", "");
    put_line(w, TOP_TITLE, "Compiling: %zu of %llu at once, by %s", count,
             (unsigned long long)json_get_u64(v->sample->activity, "slots", 0),
             top_sort_names[v->sort]);
    if (count > 0)
        put_line(w, TOP_PLAIN, "%9s  %-12s %-22s %-10s %s", "AGE", "USER", "TARGET", "TOOLCHAIN",
                 "PROGRAM");
    for (size_t i = 0; i < count; i++)
        put_compile(w, rows[i]);
}

static void put_user(struct writer *w, const char *user, const struct json *j)
{
    put_line(w, TOP_PLAIN, "  %-16.16s %8llu %8llu %8llu", user,
             (unsigned long long)json_get_u64(j, "running", 0),
             (unsigned long long)json_get_u64(j, "waiting", 0),
             (unsigned long long)json_get_u64(j, "prefetch", 0));
}

static void put_users(struct writer *w, const struct json *activity)
{
    const struct json *users = json_get(activity, "users"), *others = json_get(activity, "others");
    bool has_others =
        json_get_u64(others, "running", 0) > 0 || json_get_u64(others, "waiting", 0) > 0;
    if (json_count(users) == 0 && !has_others)
        return;
    put_line(w, TOP_PLAIN, "%s", "");
    put_line(w, TOP_TITLE, "  %-16s %8s %8s %8s", "USER", "RUNNING", "WAITING", "AHEAD");
    for (const struct json *j = json_first(users); j; j = json_next(j)) {
        char user[DB_NAME_MAX];
        put_user(w, db_user_name(j, user), j);
    }
    if (has_others)
        put_user(w, "others", others);
}

void top_page_fill(const struct top_view *v, struct top_page *ret_page)
{
    size_t width = v->width && v->width < TOP_WIDTH_MAX ? v->width : TOP_WIDTH_MAX;
    struct writer w = { .page = ret_page,
                        .width = width,
                        .height = v->height ? v->height : TOP_LINES_MAX };
    ret_page->count = 0;
    if (v->trouble)
        put_line(&w, TOP_WARNING, "no daemon, retrying: %.200s", v->trouble);
    if (!v->sample->stats)
        return;
    put_head(&w, v);
    put_compiles(&w, v);
    put_users(&w, v->sample->activity);
}
