/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/db_words.h"
#include "cli/kilnctl/report_html.h"
#include "cli/kilnctl/report_page.h"
#include "common/base/units.h"

#include <stdarg.h>
#include <string.h>

#define ROWS_MAX 25

/* ---- misses ---- */

static const struct {
    const char *name, *what;
} reasons[] = {
    { "new", "It was not requested before, or it had been evicted" },
    { "uncached", "A job or kilnctl doctor asked to compile it again" },
    { "remembered", "It failed to compile recently" },
    { "unknown", "It was requested only by key or name, and no tier had it" },
    { "refused", "A limit was reached, or no compiler was available" },
    { "damaged", "The stored kernel failed its check" },
    { "store", "The store could not be read" },
};

void report_misses(const struct report *r, FILE *out)
{
    char count[UNITS_TEXT_MAX];
    const struct json *by = json_get(r->history, "miss_reasons");
    double all = json_get_number(r->history, "misses", 0);
    html_begin_section(
        out, "Misses by reason",
        "Kernels that jobs requested and no tier had, since kilnd started. Prefetches do not "
        "count.");
    if (!(all > 0)) {
        fputs("<p class=\"none\">None so far.</p></section>\n", out);
        return;
    }
    fputs("<div class=\"wide\"><table><thead><tr><th>Why</th><th class=\"n\">Kernels</th>"
          "<th class=\"n\">Share</th><th></th></tr></thead><tbody>",
          out);
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        double part = json_get_number(by, reasons[i].name, 0);
        if (!(part > 0))
            continue;
        fputs("<tr>", out);
        html_element(out, "td", "name", "%s", reasons[i].what);
        html_element(out, "td", "n", "%s",
                     units_count(json_get_u64(by, reasons[i].name, 0), count));
        html_element(out, "td", "n", "%.1f %%", 100 * part / all);
        html_share_cell(out, part, all);
        fputs("</tr>", out);
    }
    fputs("</tbody></table></div></section>\n", out);
}

/* ---- usage by target, user and program ---- */

static void write_usage_row(FILE *out, const char *class, const char *name, const struct json *row,
                            double most)
{
    char text[UNITS_TEXT_MAX];
    fprintf(out, *class ? "<tr class=\"%s\">" : "<tr>", class);
    html_element(out, "td", "name", "%s", name);
    html_element(out, "td", "n", "%s", units_seconds(json_get_number(row, "saved_s", 0), text));
    html_element(out, "td", "n", "%s", units_count(json_get_u64(row, "hits", 0), text));
    html_element(out, "td", "n", "%s", units_count(json_get_u64(row, "compiles", 0), text));
    html_element(out, "td", "n", "%s", units_count(json_get_u64(row, "kernels", 0), text));
    html_element(out, "td", "n", "%s", units_size(json_get_u64(row, "bytes", 0), text));
    html_share_cell(out, json_get_number(row, "bytes", 0), *class ? 0 : most);
    fputs("</tr>", out);
}

static void add_to_sum(const struct json *row, struct json *sum)
{
    static const char *const counts[] = { "hits", "compiles", "kernels", "bytes" };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        json_replace_u64(sum, counts[i],
                         json_get_u64(sum, counts[i], 0) + json_get_u64(row, counts[i], 0));
}

static bool is_nothing(const struct json *row)
{
    return json_get_u64(row, "hits", 0) + json_get_u64(row, "compiles", 0) +
               json_get_u64(row, "bytes", 0) ==
           0;
}

static double most_bytes(const struct json *rows)
{
    double most = 0;
    for (const struct json *j = json_first(rows); j; j = json_next(j)) {
        double bytes = json_get_number(j, "bytes", 0);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void write_usage_rows(const struct json *accounting, const char *by, FILE *out)
{
    const struct json *rows = json_get(accounting, "rows");
    KILN_AUTO(json) struct json *rest = json_object();
    double most = most_bytes(rows),
           saved = json_get_number(json_get(accounting, "others"), "saved_s", 0);
    size_t shown = 0;
    add_to_sum(json_get(accounting, "others"), rest);
    for (const struct json *j = json_first(rows); j; j = json_next(j)) {
        char user[DB_NAME_MAX];
        if (shown++ < ROWS_MAX) {
            write_usage_row(
                out, "", strcmp(by, "uid") == 0 ? db_user_name(j, user) : json_get_text(j, by, "?"),
                j, most);
            continue;
        }
        add_to_sum(j, rest);
        saved += json_get_number(j, "saved_s", 0);
    }
    json_set_number(rest, "saved_s", saved);
    if (!is_nothing(rest))
        write_usage_row(out, "", "others", rest, most);
    write_usage_row(out, "sum", "total", json_get(accounting, "total"), most);
}

static void write_usage(const struct json *accounting, const char *title, const char *by,
                        const char *column, FILE *out)
{
    html_element(out, "h3", "", "%s", title);
    if (!accounting || (json_count(json_get(accounting, "rows")) == 0 &&
                        is_nothing(json_get(accounting, "total")))) {
        fputs(accounting ? "<p class=\"none\">Nothing is stored yet.</p>"
                         : "<p class=\"none\">kilnd's answer is missing.</p>",
              out);
        return;
    }
    fprintf(out,
            "<div class=\"wide\"><table><thead><tr><th>%s</th><th class=\"n\">Saved</th>"
            "<th class=\"n\">Hits</th><th class=\"n\">Compiles</th><th class=\"n\">Kernels</th>"
            "<th class=\"n\">Stored</th><th></th></tr></thead><tbody>",
            column);
    write_usage_rows(accounting, by, out);
    fputs("</tbody></table></div>\n", out);
}

void report_accounting(const struct report *r, FILE *out)
{
    html_begin_section(out, "What the store holds, and what it saved", "");
    write_usage(r->by_target, "By target", "target", "Target", out);
    write_usage(r->by_user, "By user", "uid", "User", out);
    write_usage(r->by_program, "By program", "program", "Program", out);
    fputs("</section>\n", out);
}

/* ---- slowest compiles ---- */

static bool has_word(const char *options, const char *word, size_t size)
{
    for (const char *at = options; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (length == size && strncmp(at, word, size) == 0)
            return true;
        at += length;
    }
    return false;
}

static bool tells_apart(const struct json *list, const struct json *kernel, const char *word,
                        size_t size)
{
    for (const struct json *j = json_first(list); j; j = json_next(j)) {
        if (j != kernel &&
            strcmp(json_get_text(j, "program", ""), json_get_text(kernel, "program", "")) == 0 &&
            strcmp(json_get_text(j, "target", ""), json_get_text(kernel, "target", "")) == 0 &&
            !has_word(json_get_text(j, "options", ""), word, size))
            return true;
    }
    return false;
}

static void write_differing_options(FILE *out, const struct json *list, const struct json *kernel)
{
    char text[512] = "";
    size_t used = 0;
    for (const char *at = json_get_text(kernel, "options", ""); *at; at += strspn(at, " ")) {
        size_t size = strcspn(at, " ");
        if (size && used + size + 2 < sizeof(text) && tells_apart(list, kernel, at, size))
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%.*s", used ? " " : "",
                                     (int)size, at);
        at += size;
    }
    if (!used)
        return;
    fputs("<br><code class=\"soft\">", out);
    html_text(out, text);
    fputs("</code>", out);
}

static void slow_row(FILE *out, const struct json *list, const struct json *kernel)
{
    char text[UNITS_TEXT_MAX];
    fputs("<tr>", out);
    html_element(out, "td", "n", "%s",
                 units_seconds(json_get_number(kernel, "compile_s", 0), text));
    fputs("<td class=\"name\"><code>", out);
    html_text(out, json_get_text(kernel, "program", "?"));
    fputs("</code>", out);
    write_differing_options(out, list, kernel);
    fputs("</td>", out);
    html_element(out, "td", "", "%s", json_get_text(kernel, "target", ""));
    html_element(out, "td", "", "%s", json_get_text(kernel, "toolchain", ""));
    html_element(out, "td", "n", "%s", units_count(json_get_u64(kernel, "uses", 0), text));
    html_element(out, "td", "n", "%s", units_size(json_get_u64(kernel, "size", 0), text));
    fputs("</tr>", out);
}

void report_slowest(const struct report *r, FILE *out)
{
    const struct json *slowest = json_get(r->history, "slowest");
    html_begin_section(
        out, "Slowest compiles",
        "Of the kernels that are in the store now. Below a program: the options by which this "
        "kernel differs from others of the list.");
    if (json_count(slowest) == 0) {
        fputs("<p class=\"none\">No kernel was compiled here yet.</p></section>\n", out);
        return;
    }
    fputs("<div class=\"wide\"><table><thead><tr><th class=\"n\">Took</th><th>Program</th>"
          "<th>Target</th><th>Compiler</th><th class=\"n\">Uses</th><th class=\"n\">Size</th></tr>"
          "</thead><tbody>",
          out);
    for (const struct json *j = json_first(slowest); j; j = json_next(j))
        slow_row(out, slowest, j);
    fputs("</tbody></table></div></section>\n", out);
}

/* ---- tuning ---- */

static void tuning_row(FILE *out, const char *name, uint64_t records, double hits, double all)
{
    char text[UNITS_TEXT_MAX];
    fputs("<tr>", out);
    html_element(out, "td", "name", "%s", name);
    html_element(out, "td", "n", "%s", units_count(records, text));
    html_element(out, "td", "n", "%s", units_count(hits > 0 ? (uint64_t)hits : 0, text));
    html_share_cell(out, hits, all);
    fputs("</tr>", out);
}

static uint64_t system_records(const struct json *tuning)
{
    uint64_t sum = 0;
    for (const struct json *j = json_first(json_get(tuning, "system")); j; j = json_next(j))
        sum += json_get_u64(j, "records", 0);
    return sum;
}

static void tuning_table(const struct json *t, FILE *out)
{
    const struct json *hits = json_get(t, "hits");
    double system = json_get_number(hits, "system", 0), host = json_get_number(hits, "host", 0);
    double user = json_get_number(hits, "user", 0), misses = json_get_number(t, "misses", 0);
    double all = system + host + user + misses;
    if (all > 0)
        html_element(out, "p", "", "%.1f %% of look-ups found a record, since kilnd started.",
                     100 * (all - misses) / all);
    fputs("<div class=\"wide\"><table><thead><tr><th>Records of</th><th class=\"n\">Records</th>"
          "<th class=\"n\">Look-ups answered</th><th></th></tr></thead><tbody>",
          out);
    tuning_row(out, "users, measured by themselves",
               json_get_u64(json_get(t, "user"), "records", 0), user, all);
    tuning_row(out, "this host, for all", json_get_u64(json_get(t, "host"), "records", 0), host,
               all);
    tuning_row(out, "imported databases", system_records(t), system, all);
    tuning_row(out, "not found", 0, misses, all);
    fputs("</tbody></table></div>", out);
}

void report_tuning(const struct report *r, FILE *out)
{
    html_begin_section(out, "Tuning coverage",
                       "How often a record existed for a problem that a job looked up.");
    if (r->tuning)
        tuning_table(r->tuning, out);
    else
        fputs(
            "<p class=\"none\">There are no tuning records: 'kilnctl db import' imports MIOpen's, "
            "'kiln-driver conv -s 1 ...' measures new ones.</p>",
            out);
    fputs("</section>\n", out);
}

/* ---- kilnd ---- */

static void write_fact(FILE *out, const char *name, const char *fmt, ...) CLI_PRINTF(3, 4);
static void write_fact(FILE *out, const char *name, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    html_element(out, "dt", "", "%s", name);
    html_element(out, "dd", "", "%s", text);
}

static void write_packages(const struct report *r, FILE *out)
{
    for (const struct json *j = json_first(json_get(r->coverage, "gpus")); j; j = json_next(j))
        write_fact(out, "GPU", "%s, package: %s", json_get_text(j, "database_id", "?"),
                   json_get_text(j, "coverage", "?"));
}

static void write_fleet(const struct json *fleet, FILE *out)
{
    uint64_t kernels = 0;
    char count[UNITS_TEXT_MAX];
    if (!fleet)
        return;
    for (const struct json *j = json_first(json_get(fleet, "shards")); j; j = json_next(j))
        kernels += json_get_u64(j, "kernels", 0);
    write_fact(out, "Fleet", "%s, its indices have %s, leases %s",
               json_get_bool(fleet, "up", false) ? "works" : "fails", units_kernels(kernels, count),
               json_get_text(fleet, "leases", "?"));
}

void report_facts(const struct report *r, FILE *out)
{
    char text[UNITS_TEXT_MAX], second[UNITS_TEXT_MAX];
    const struct json *s = r->status, *hot = json_get(s, "hot");
    html_begin_section(out, "kilnd", "");
    fputs("<dl>", out);
    write_fact(out, "Version", "%s", json_get_text(s, "version", "?"));
    write_fact(out, "Running for", "%s", units_seconds(json_get_number(s, "uptime_s", 0), text));
    write_fact(out, "Socket", "%s", json_get_text(s, "socket", "?"));
    write_fact(out, "Cache directory", "%s (%s)", json_get_text(s, "cache_dir", "?"),
               json_get_text(json_get(s, "store"), "health", "?"));
    write_fact(out, "State directory", "%s", json_get_text(s, "state_dir", "?"));
    write_fact(out, "In memory", "%s of at most %s",
               units_size(json_get_u64(hot, "bytes", 0), text),
               units_size(json_get_u64(hot, "limit_bytes", 0), second));
    write_fact(out, "Compilers at once", "%llu",
               (unsigned long long)json_get_u64(json_get(s, "workers"), "total", 0));
    for (const struct json *j = json_first(json_get(s, "toolchains")); j; j = json_next(j))
        write_fact(out, "Compiler", "%.40s: %.200s", json_get_text(j, "name", "?"),
                   json_get_text(j, "version", "?"));
    write_packages(r, out);
    write_fleet(json_get(s, "fleet"), out);
    fputs("</dl></section>\n", out);
}
