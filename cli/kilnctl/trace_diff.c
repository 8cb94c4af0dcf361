/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/trace_entry.h"
#include "cli/kilnctl/trace_job.h"
#include "cli/output.h"
#include "common/base/units.h"

/* How a plan or kernel of one job (here) compares with those of the other job. */
enum relation {
    ONLY_HERE,
    HERE_COMPILED, /* both jobs used it, but only the job here waited for its compile */
    ALIKE,
};

struct side {
    const char *name, *sign;
    struct trace_job job;
};

static bool is_compiled(enum trace_tier tier)
{
    return tier == TRACE_COMPILED || tier == TRACE_OWN;
}

static enum relation relate(const struct trace_entry *entry, const struct trace_job *other)
{
    const struct trace_entry *there = trace_job_find(other, &entry->line);
    if (!there)
        return ONLY_HERE;
    return is_compiled(entry->line.tier) && !is_compiled(there->line.tier) ? HERE_COMPILED : ALIKE;
}

static struct json *list_json(const struct side *here, const struct trace_job *other,
                              enum relation wanted)
{
    struct json *list = json_array();
    for (size_t i = 0; i < here->job.count; i++)
        if (relate(here->job.entries[i], other) == wanted)
            json_append(list, trace_entry_json(here->job.entries[i]));
    return list;
}

static int print_json(const struct side *a, const struct side *b, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *json = json_object();
    const struct trace_totals of_a = trace_job_totals(&a->job), of_b = trace_job_totals(&b->job);
    json_set_number(json, "a_waited_s", (double)of_a.waited_us / 1e6);
    json_set_number(json, "b_waited_s", (double)of_b.waited_us / 1e6);
    json_set(json, "only_a", list_json(a, &b->job, ONLY_HERE));
    json_set(json, "only_b", list_json(b, &a->job, ONLY_HERE));
    json_set(json, "only_a_compiled", list_json(a, &b->job, HERE_COMPILED));
    json_set(json, "only_b_compiled", list_json(b, &a->job, HERE_COMPILED));
    return output_json(json, err);
}

static size_t print_side(const struct side *here, const struct trace_job *other)
{
    size_t alike = 0;
    for (size_t i = 0; i < here->job.count; i++) {
        char text[TRACE_LINE_MAX], waited[UNITS_TEXT_MAX];
        const struct trace_entry *e = here->job.entries[i];
        enum relation relation = relate(e, other);
        alike += relation != ONLY_HERE;
        if (relation == ALIKE)
            continue;
        printf("%s %s", here->sign, trace_entry_text(&e->line, text));
        if (relation == HERE_COMPILED)
            printf(" (compiled only for %s)", here->name);
        if (e->longest_us)
            printf(" waited %s", units_seconds((double)e->longest_us / 1e6, waited));
        putchar('\n');
    }
    return alike;
}

static void print_diff(const struct side *a, const struct side *b)
{
    char of_a[UNITS_TEXT_MAX], of_b[UNITS_TEXT_MAX];
    size_t alike = print_side(a, &b->job);
    print_side(b, &a->job);
    printf("%zu plans and kernels in both; %s waited %s, %s waited %s\n", alike, a->name,
           units_seconds((double)trace_job_totals(&a->job).waited_us / 1e6, of_a), b->name,
           units_seconds((double)trace_job_totals(&b->job).waited_us / 1e6, of_b));
}

static void side_done(struct side *side) { trace_job_done(&side->job); }

static int run_trace_diff(const struct invocation *invocation, struct kiln_error *err)
{
    __attribute__((cleanup(side_done))) struct side a = { .name = "A", .sign = "-" };
    __attribute__((cleanup(side_done))) struct side b = { .name = "B", .sign = "+" };
    int rc = trace_job_read(invocation->words[0], &a.job, err);
    if (!rc)
        rc = trace_job_read(invocation->words[1], &b.job, err);
    if (rc)
        return rc;
    trace_job_print_damage(&a.job);
    trace_job_print_damage(&b.job);
    if (invocation->common->json)
        return print_json(&a, &b, err);
    print_diff(&a, &b);
    return KILN_E_OK;
}

const struct command command_trace_diff = {
    .name = "trace diff",
    .words = "A B",
    .summary = "show why one run of a job waited longer than another",
    .help =
        "Compares two jobs, or two files (words with '/').  Shows each plan and kernel that only "
        "A\n"
        "('-') or only B ('+') used, and those that kilnd had for one of them and compiled for "
        "the\n"
        "other.  Two plans are the same if problem, target, database id, toolchain and solver are.",
    .least_words = 2,
    .most_words = 2,
    .run = run_trace_diff,
};
