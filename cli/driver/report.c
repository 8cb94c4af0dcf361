/* SPDX-License-Identifier: MIT */
#include "cli/driver/report.h"

#include "cli/driver/lines_report.h"
#include "cli/output.h"
#include "cli/tiers.h"
#include "cli/units.h"

#define TIERS (KILN_TIER_TABLE + 1)

/* Every phase once: where it is, what JSON and the table call it. */
static const struct phase_name {
    size_t offset;
    const char *json, *table;
} phase_names[] = {
    { offsetof(struct phases, plan), "plan_s", "plan" },
    { offsetof(struct phases, fetch), "fetch_s", "fetch" },
    { offsetof(struct phases, compile), "compile_s", "  of which compile" },
    { offsetof(struct phases, load), "load_s", "load" },
    { offsetof(struct phases, first), "first_s", "first launches" },
    { offsetof(struct phases, timed), "timed_s", "launches to time" },
    { offsetof(struct phases, steady), "steady_s", "  one of each, median" },
    { offsetof(struct phases, wall), "wall_s", "  one of each, wall clock" },
    { offsetof(struct phases, check), "check_s", "tensors and reference" },
};
#define PHASES (sizeof(phase_names) / sizeof(phase_names[0]))

static double phase(const struct phases *phases, size_t index)
{
    return *(const double *)(const void *)((const char *)phases + phase_names[index].offset);
}

static void add_phases(struct phases *sum, const struct phases *more)
{
    for (size_t i = 0; i < PHASES; i++)
        *(double *)(void *)((char *)sum + phase_names[i].offset) += phase(more, i);
}

void report_init(struct report *report, bool json)
{
    *report = (struct report){ .json = json, .results = json ? json_array() : NULL };
}

void report_done(struct report *report)
{
    json_destroy(report->results);
    *report = (struct report){ 0 };
}

static void count(struct totals *t, const struct measurement *m)
{
    t->problems++;
    t->failed += m->err.code != KILN_E_OK;
    t->verified += m->checked && m->wrong == 0;
    t->kernels += m->object_count;
    for (unsigned i = 0; i < m->object_count; i++) {
        int tier = m->objects[i].tier;
        if (tier == KILN_TIER_COMPILED)
            t->compiled++;
        else if (tier >= 0 && tier < TIERS)
            t->tiers[tier]++;
    }
    add_phases(&t->time, &m->time);
}

static struct json *phases_json(const struct phases *phases)
{
    struct json *json = json_object();
    for (size_t i = 0; i < PHASES; i++)
        json_set_number(json, phase_names[i].json, phase(phases, i));
    return json;
}

static struct json *error_json(const struct kiln_error *err)
{
    struct json *json = json_object();
    json_set_text(json, "code", kiln_error_name(err->code));
    json_set_text(json, "text", err->text);
    json_set_text(json, "log", err->log);
    return json;
}

static struct json *place_json(const struct report_place *place, const struct kiln_error *err)
{
    struct json *json = json_object();
    json_set_u64(json, "line", place->line);
    json_set_text(json, "command", place->command);
    json_set_bool(json, "ok", err->code == KILN_E_OK);
    if (err->code != KILN_E_OK)
        json_set(json, "error", error_json(err));
    return json;
}

static struct json *objects_json(const struct measurement *m)
{
    struct json *objects = json_array();
    for (unsigned i = 0; i < m->object_count; i++) {
        struct json *json = json_object();
        json_set_text(json, "key", m->objects[i].key);
        json_set_text(json, "tier", tier_name(m->objects[i].tier));
        json_set_u64(json, "size", m->objects[i].size);
        json_set_number(json, "compile_s", m->objects[i].compile_s);
        json_append(objects, json);
    }
    return objects;
}

static struct json *measurement_json(const struct report_place *place, const struct measurement *m)
{
    static const char *const directions[] = { "F", "B", "W" };
    struct json *json = place_json(place, &m->err);
    double seconds = m->time.steady > 0 ? m->time.steady : m->time.first;
    json_set_text(json, "direction", directions[m->problem.direction % 3]);
    json_set_u64(json, "seed", m->seed);
    json_set_text(json, "solver", m->solver);
    json_set_text(json, "toolchain", m->toolchain);
    json_set_u64(json, "workspace", m->workspace);
    json_set(json, "kernels", objects_json(m));
    json_set(json, "times", phases_json(&m->time));
    json_set_u64(json, "iterations", m->iterations);
    json_set_number(json, "flops", m->flops);
    json_set_number(json, "gflops_per_s", seconds > 0 ? m->flops / seconds / 1e9 : 0);
    json_set_bool(json, "checked", m->checked);
    json_set_u64(json, "elements", m->elements);
    json_set_u64(json, "wrong", m->wrong);
    json_set_number(json, "largest_error", m->largest_error);
    return json;
}

void report_add(struct report *report, const struct report_place *place,
                const struct measurement *measurement)
{
    count(&report->totals, measurement);
    if (report->json)
        json_append(report->results, measurement_json(place, measurement));
    else
        lines_report_print(place, measurement, stdout);
}

void report_add_failure(struct report *report, const struct report_place *place,
                        const struct kiln_error *err)
{
    report->totals.problems++;
    report->totals.failed++;
    if (report->json)
        json_append(report->results, place_json(place, err));
    else
        lines_report_failure(place, err, stderr);
}

static size_t hits(const struct totals *t)
{
    size_t sum = 0;
    for (int tier = 0; tier < TIERS; tier++)
        sum += t->tiers[tier];
    return sum;
}

static void add_count(struct table *table, const char *name, size_t number)
{
    char text[UNITS_TEXT_MOST];
    table_cell(table, "%s", name);
    table_cell(table, "%s", units_count(number, text));
}

static void add_counts(struct table *table, const struct totals *t)
{
    add_count(table, "problems", t->problems);
    add_count(table, "failed", t->failed);
    add_count(table, "verified", t->verified);
    add_count(table, "kernels", t->kernels);
    add_count(table, "compiles", t->compiled);
    add_count(table, "hits", hits(t));
    for (int tier = 0; tier < TIERS; tier++) {
        char name[32];
        snprintf(name, sizeof(name), "  %s", tier_name(tier));
        if (t->tiers[tier] > 0)
            add_count(table, name, t->tiers[tier]);
    }
}

void report_print_summary(const struct report *report, FILE *out)
{
    static const struct column columns[] = { { NULL, ALIGN_LEFT }, { NULL, ALIGN_RIGHT } };
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 2);
    const struct totals *t = &report->totals;
    struct kiln_error err = { 0 };
    char text[UNITS_TEXT_MOST];
    add_counts(table, t);
    table_cell(table, "time");
    table_cell(table, "%s", units_seconds(t->seconds, text));
    for (size_t i = 0; i < PHASES; i++) {
        if (phase(&t->time, i) <= 0)
            continue;
        table_cell(table, "  %s", phase_names[i].table);
        table_cell(table, "%s", units_seconds(phase(&t->time, i), text));
    }
    if (table_print(table, out, &err))
        output_error(stderr, "kiln-driver", &err, NULL);
}

static struct json *summary_json(const struct totals *t)
{
    struct json *json = json_object();
    struct json *tiers = json_object();
    for (int tier = KILN_TIER_HOT; tier < TIERS; tier++)
        if (tier != KILN_TIER_COMPILED)
            json_set_u64(tiers, tier_name(tier), t->tiers[tier]);
    json_set_u64(json, "problems", t->problems);
    json_set_u64(json, "failed", t->failed);
    json_set_u64(json, "verified", t->verified);
    json_set_u64(json, "kernels", t->kernels);
    json_set_u64(json, "compiles", t->compiled);
    json_set_u64(json, "hits", hits(t));
    json_set(json, "hits_by_tier", tiers);
    json_set_number(json, "seconds", t->seconds);
    json_set(json, "times", phases_json(&t->time));
    return json;
}

int report_print_json(struct report *report, const struct kiln_device *device, uint64_t seed,
                      struct kiln_error *err)
{
    KILN_AUTO(json) struct json *json = json_object();
    json_set_u64(json, "seed", seed);
    if (device) {
        json_set_text(json, "device", kiln_device_name(device));
        json_set_text(json, "model", kiln_device_model(device));
        json_set_text(json, "target", kiln_device_target(device));
    }
    json_set(json, "results", KILN_TAKE(report->results));
    json_set(json, "summary", summary_json(&report->totals));
    KILN_AUTO(mem) char *text = json_print(json, false);
    if (!text)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory while printing JSON");
    puts(text);
    return KILN_E_OK;
}
