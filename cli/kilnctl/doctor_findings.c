/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/doctor_findings.h"

#include "cli/output.h"

#include <stdarg.h>
#include <string.h>

/* Width of the column with the names of checks. Advice is printed on its own lines, because a
 * column for it would be too wide. */
#define CHECK_WIDTH 16

struct finding *findings_add(struct findings *f, const char *check, enum verdict verdict,
                             const char *fmt, ...)
{
    static struct finding beyond;
    struct finding *finding = f->count < FINDINGS_MAX ? &f->items[f->count++] : &beyond;
    va_list args;
    *finding = (struct finding){ .verdict = verdict };
    snprintf(finding->check, sizeof(finding->check), "%s", check);
    va_start(args, fmt);
    vsnprintf(finding->what, sizeof(finding->what), fmt, args);
    va_end(args);
    return finding;
}

void findings_advise(struct finding *finding, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(finding->advice, sizeof(finding->advice), fmt, args);
    va_end(args);
}

void findings_causes_first(struct findings *f, size_t from)
{
    size_t front = 0;
    for (size_t i = from; i < f->count; i++) {
        if (f->items[i].verdict != VERDICT_FAIL)
            continue;
        struct finding cause = f->items[i];
        memmove(&f->items[front + 1], &f->items[front], (i - front) * sizeof(cause));
        f->items[front++] = cause;
    }
}

size_t findings_count(const struct findings *f, enum verdict verdict)
{
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++)
        count += f->items[i].verdict == verdict;
    return count;
}

const char *verdict_name(enum verdict verdict)
{
    static const char *const names[] = { "ok", "warn", "fail", "unseen" };
    return names[verdict];
}

static const char *colour_of(enum verdict verdict)
{
    static const char *const colours[] = { "\033[32m", "\033[33m", "\033[1;31m", "\033[2m" };
    return colours[verdict];
}

static void print_finding(const struct finding *finding, bool colour, FILE *out)
{
    char text[sizeof(finding->advice)];
    snprintf(text, sizeof(text), "%s", finding->what);
    output_clean(text, false);
    fprintf(out, "%s%-6s%s  %-*s  %s\n", colour ? colour_of(finding->verdict) : "",
            verdict_name(finding->verdict), colour ? "\033[0m" : "", CHECK_WIDTH, finding->check,
            text);
    if (!finding->advice[0])
        return;
    snprintf(text, sizeof(text), "%s", finding->advice);
    output_clean(text, true);
    for (char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        fprintf(out, "%*s%.*s\n", CHECK_WIDTH + 10, "", (int)strcspn(line, "\n"), line);
    }
}

void findings_print(const struct findings *f, FILE *out)
{
    bool colour = output_has_colour(out);
    for (size_t i = 0; i < f->count; i++)
        print_finding(&f->items[i], colour, out);
}

struct json *findings_to_json(const struct findings *f)
{
    struct json *list = json_array();
    for (size_t i = 0; i < f->count; i++) {
        struct json *j = json_object();
        json_set_text(j, "check", f->items[i].check);
        json_set_text(j, "verdict", verdict_name(f->items[i].verdict));
        json_set_text(j, "what", f->items[i].what);
        if (f->items[i].advice[0])
            json_set_text(j, "advice", f->items[i].advice);
        json_append(list, j);
    }
    return list;
}
