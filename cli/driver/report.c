/* SPDX-License-Identifier: MIT */
#include "cli/driver/report.h"

#include "cli/driver/find.h"
#include "cli/driver/lines_report.h"
#include "cli/result.h"

static const struct phase_name {
    size_t offset;
    const char *json, *table;
} phase_names[] = {
    { offsetof(struct phases, find), "find_s", "  find and tune" },
    { offsetof(struct phases, plan), "plan_s", "  plan" },
    { offsetof(struct phases, fetch), "fetch_s", "  fetch" },
    { offsetof(struct phases, compile), "compile_s", "    compile time" },
    { offsetof(struct phases, load), "load_s", "  load" },
    { offsetof(struct phases, first), "first_s", "  first launches" },
    { offsetof(struct phases, timed), "timed_s", "  timed launches" },
    { offsetof(struct phases, steady), "steady_s", "    one launch each, median" },
    { offsetof(struct phases, wall), "wall_s", "    one launch each, wall clock" },
    { offsetof(struct phases, check), "check_s", "  tensors and reference" },
};
#define PHASES (sizeof(phase_names) / sizeof(phase_names[0]))

static double phase_seconds(const struct phases *phases, size_t index)
{
    return *(const double *)(const void *)((const char *)phases + phase_names[index].offset);
}

static void add_phases(struct phases *sum, const struct phases *more)
{
    for (size_t i = 0; i < PHASES; i++)
        *(double *)(void *)((char *)sum + phase_names[i].offset) += phase_seconds(more, i);
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

static void count_result(struct totals *t, const struct kiln_error *err)
{
    t->problems++;
    if (err->code == KILN_E_OK)
        return;
    if (t->failed++ == 0)
        t->first = *err;
    t->mixed |= err->code != t->first.code;
}

static size_t count_untimed(const struct kiln_conv_result *found)
{
    size_t untimed = 0;
    for (unsigned i = 0; found && i < kiln_conv_result_count(found); i++) {
        struct kiln_conv_entry entry = { .size = sizeof(entry) };
        struct kiln_error unused = { 0 };
        untimed += kiln_conv_result_entry(found, i, &entry, &unused) == KILN_E_OK &&
                   entry.state == KILN_CONV_UNTIMED && entry.reason[0];
    }
    return untimed;
}

static void count_measurement(struct totals *t, const struct measurement *m)
{
    count_result(t, &m->err);
    t->verified += m->checked && m->wrong == 0;
    t->untimed += count_untimed(m->found);
    for (unsigned i = 0; i < m->object_count; i++)
        tier_count(&t->tiers, m->objects[i].tier);
    add_phases(&t->time, &m->time);
}

static struct json *phases_json(const struct phases *phases)
{
    struct json *json = json_object();
    for (size_t i = 0; i < PHASES; i++)
        json_set_number(json, phase_names[i].json, phase_seconds(phases, i));
    return json;
}

static struct json *place_json(const struct report_place *place, const struct kiln_error *err)
{
    struct json *json = json_object();
    json_set_u64(json, "line", place->line);
    json_set_text(json, "command", place->command);
    json_set_bool(json, "ok", err->code == KILN_E_OK);
    if (err->code != KILN_E_OK)
        json_set(json, "error", result_error_json(err));
    return json;
}

static struct json *provisional_json(const struct measurement *m)
{
    struct json *json = json_object();
    json_set_text(json, "solver", m->first_solver);
    json_set_text(json, "config", m->first_config);
    json_set_u64(json, "improvements", m->improvements);
    json_set_bool(json, "tuned", m->tuned);
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
    json_set_bool(json, "transposed", m->transposed);
    json_set_text(json, "asked_direction", directions[measure_asked_direction(m)]);
    json_set_u64(json, "seed", m->seed);
    json_set_text(json, "solver", m->solver);
    json_set_text(json, "config", m->config);
    json_set_text(json, "toolchain", m->toolchain);
    json_set_u64(json, "workspace", m->workspace);
    if (m->found)
        json_set(json, "find", find_json(m->found));
    if (m->provisional)
        json_set(json, "provisional", provisional_json(m));
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
    count_measurement(&report->totals, measurement);
    if (report->json)
        json_append(report->results, measurement_json(place, measurement));
    else
        lines_report_print(place, measurement, stdout);
}

void report_add_failure(struct report *report, const struct report_place *place,
                        const struct kiln_error *err)
{
    count_result(&report->totals, err);
    if (report->json)
        json_append(report->results, place_json(place, err));
    else
        lines_report_failure(place, err, stderr);
}

/* Chooses the code of the whole run, from which the exit status follows.  An exit status above 1
 * says why the whole run failed, so it must be used only if all problems failed for this reason. */
int report_judge(const struct report *report, struct kiln_error *err)
{
    const struct totals *t = &report->totals;
    if (t->failed == 0)
        return KILN_E_OK;
    bool all = t->failed == t->problems && !t->mixed;
    int code =
        all || exit_status_of(t->first.code) == EXIT_FAILED ? t->first.code : KILN_E_UNSUPPORTED;
    return cli_fail(err, code, "%zu of %zu problems failed", t->failed, t->problems);
}

void report_print_summary(const struct report *report, FILE *out)
{
    static const struct column columns[] = { { NULL, ALIGN_LEFT }, { NULL, ALIGN_RIGHT } };
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 2);
    const struct totals *t = &report->totals;
    struct kiln_error err = { 0 };
    table_count(table, "problems", t->problems);
    table_count(table, "failed", t->failed);
    table_count(table, "verified", t->verified);
    if (t->untimed)
        table_count(table, "solvers without a time (--budget)", t->untimed);
    tier_rows(&t->tiers, table);
    table_seconds(table, "time", t->seconds);
    for (size_t i = 0; i < PHASES; i++)
        if (phase_seconds(&t->time, i) > 0)
            table_seconds(table, phase_names[i].table, phase_seconds(&t->time, i));
    if (table_print(table, out, &err))
        output_error(stderr, "kiln-driver", &err, NULL);
}

static struct json *summary_json(const struct totals *t)
{
    struct json *json = json_object();
    json_set_u64(json, "problems", t->problems);
    json_set_u64(json, "failed", t->failed);
    json_set_u64(json, "verified", t->verified);
    json_set_u64(json, "untimed_solvers", t->untimed);
    tier_json(&t->tiers, json);
    json_set_number(json, "seconds", t->seconds);
    json_set(json, "times", phases_json(&t->time));
    return json;
}

int report_print_json(struct report *report, const struct kiln_device *device, uint64_t seed,
                      const struct kiln_error *failure, struct kiln_error *err)
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
    if (failure)
        json_set(json, "error", result_error_json(failure));
    return output_json(json, err);
}
