/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/prefetch_report.h"

#include <string.h>

void prefetch_report_done(struct prefetch_report *report)
{
    for (size_t i = 0; i < report->recorded; i++) {
        free(report->failures[i].what);
        free(report->failures[i].text);
        free(report->failures[i].log);
    }
    free(report->failures);
    HASH_ALL (&report->kernels, struct prefetch_kernel, link, kernel)
        free(kernel);
    hash_table_done(&report->kernels);
    *report = (struct prefetch_report){ 0 };
}

/* The key is a digest in hexadecimal, so its first 64 bits serve as a hash. */
static uint64_t hash_key(const char *key)
{
    char head[17] = "";
    memcpy(head, key, strnlen(key, sizeof(head) - 1));
    return strtoull(head, NULL, 16);
}

bool prefetch_report_has(const struct prefetch_report *report, const char *key)
{
    HASH_EACH (&report->kernels, hash_key(key), const struct prefetch_kernel, link, known)
        if (strcmp(known->key, key) == 0)
            return true;
    return false;
}

static bool note_kernel(struct prefetch_report *report, const char *key, bool in_memory)
{
    if (prefetch_report_has(report, key))
        return false;
    struct prefetch_kernel *kernel = calloc(1, sizeof(*kernel));
    if (!kernel) {
        report->incomplete = true;
        return false;
    }
    kernel->in_memory = in_memory;
    snprintf(kernel->key, sizeof(kernel->key), "%s", key);
    hash_table_add(&report->kernels, &kernel->link, hash_key(key));
    return true;
}

void prefetch_report_plan(struct prefetch_report *report, const struct kiln_plan *plan)
{
    report->done++;
    for (unsigned i = 0; i < kiln_plan_object_count(plan); i++) {
        int tier = kiln_plan_object_tier(plan, i);
        bool in_memory = tier == KILN_TIER_COMPILED || tier == KILN_TIER_HOT;
        if (!note_kernel(report, kiln_plan_object_key(plan, i), in_memory))
            continue;
        tier_count(&report->tiers, tier);
        if (tier == KILN_TIER_COMPILED)
            report->compile_s += (double)kiln_plan_object_compile_ns(plan, i) / 1e9;
    }
}

void prefetch_report_failure(struct prefetch_report *report, unsigned line, const char *what,
                             const struct kiln_error *err)
{
    struct prefetch_failure failure = {
        .line = line,
        .code = err->code,
        .what = strdup(what),
        .text = strdup(err->text[0] ? err->text : kiln_error_text(err->code)),
        .log = strdup(err->log),
    };
    struct prefetch_failure *grown =
        reallocarray(report->failures, report->recorded + 1, sizeof(*grown));
    report->failed++;
    if (grown)
        report->failures = grown;
    if (!grown || !failure.what || !failure.text || !failure.log) {
        free(failure.what);
        free(failure.text);
        free(failure.log);
        report->incomplete = true;
        return;
    }
    report->failures[report->recorded++] = failure;
}

static const struct prefetch_failure *first_alike(const struct prefetch_report *report,
                                                  const struct prefetch_failure *failure)
{
    const struct prefetch_failure *f = report->failures;
    while (strcmp(f->text, failure->text) != 0 || strcmp(f->log, failure->log) != 0)
        f++;
    return f;
}

void prefetch_report_print_failure(const struct prefetch_report *report, size_t index, FILE *out)
{
    const struct prefetch_failure *failure = &report->failures[index];
    const struct prefetch_failure *first = first_alike(report, failure);
    if (first != failure) {
        fprintf(out, "line %u: as line %u\n", failure->line, first->line);
        output_lines(out, "    ", failure->what);
        return;
    }
    char text[1024];
    snprintf(text, sizeof(text), "line %u: %s", failure->line, failure->text);
    output_clean(text, false);
    fprintf(out, "%s\n", text);
    output_lines(out, "    ", failure->what);
    output_lines(out, "  | ", failure->log);
}

void prefetch_report_print(const struct prefetch_report *report, FILE *out)
{
    static const struct column columns[] = { { NULL, ALIGN_LEFT }, { NULL, ALIGN_RIGHT } };
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 2);
    struct kiln_error err = { 0 };
    table_count(table, "problems", report->problems);
    tier_rows(&report->tiers, table);
    table_count(table, "failed", report->failed);
    if (report->not_stored)
        table_count(table, "not stored", report->not_stored);
    table_seconds(table, "time", report->seconds);
    table_seconds(table, "compilers' time", report->compile_s);
    if (table_print(table, out, &err))
        output_error(stderr, "kilnctl", &err, NULL);
}

static struct json *failures_json(const struct prefetch_report *report)
{
    struct json *failures = json_array();
    for (size_t i = 0; i < report->recorded; i++) {
        const struct prefetch_failure *f = &report->failures[i];
        struct json *item = json_object();
        json_set_u64(item, "line", f->line);
        json_set_text(item, "problem", f->what);
        json_set_text(item, "code", kiln_error_name(f->code));
        json_set_text(item, "reason", f->text);
        json_set_text(item, "log", f->log);
        json_append(failures, item);
    }
    return failures;
}

struct json *prefetch_report_json(const struct prefetch_report *report)
{
    struct json *json = json_object();
    json_set_u64(json, "lines", report->lines);
    json_set_u64(json, "problems", report->problems);
    json_set_u64(json, "repeats", report->repeats);
    tier_json(&report->tiers, json);
    json_set_u64(json, "failed", report->failed);
    json_set_u64(json, "not_stored", report->not_stored);
    json_set_number(json, "seconds", report->seconds);
    json_set_number(json, "compile_s", report->compile_s);
    json_set(json, "failures", failures_json(report));
    return json;
}
