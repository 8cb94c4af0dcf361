/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/db_words.h"
#include "cli/kilnctl/trace_entry.h"
#include "cli/kilnctl/trace_groups.h"
#include "cli/kilnctl/trace_job.h"
#include "cli/output.h"
#include "common/base/units.h"

struct show_options {
    bool problems;
};

static const struct option options[] = {
    { "problems", 0, OPTION_FLAG, offsetof(struct show_options, problems), NULL,
      "print each problem once, as a MIOpenDriver command line", 0, 0 },
};

static int print_problem(const struct kiln_problem *problem, struct kiln_error *err)
{
    char text[512];
    int rc = kiln_problem_to_driver(problem, text, sizeof(text), err);
    if (!rc)
        puts(text);
    return rc;
}

static int print_problems(const struct trace_job *job, struct kiln_error *err)
{
    const struct trace_change change = { .target = "", .any_solver = true };
    TRACE_GROUPS_AUTO struct trace_groups groups = { 0 };
    int rc = trace_groups_make(job, &change, &groups, err);
    const struct problem_set *set = groups.count ? &groups.list[0]->problems : NULL;
    for (size_t i = 0; !rc && set && i < set->count; i++)
        rc = print_problem(&set->problems[i], err);
    return rc;
}

static int print_table(const struct trace_job *job, struct kiln_error *err)
{
    static const struct column columns[] = {
        { "WANTED", ALIGN_RIGHT }, { "WAITED", ALIGN_RIGHT },        { "FROM", ALIGN_LEFT },
        { "BY", ALIGN_RIGHT },     { "PLAN OR KERNEL", ALIGN_LEFT },
    };
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 5);
    for (size_t i = 0; i < job->count; i++) {
        char time[UNITS_TEXT_MAX], text[TRACE_LINE_MAX];
        const struct trace_entry *e = job->entries[i];
        table_cell(table, "%s", units_seconds((double)e->line.wanted_us / 1e6, time));
        table_cell(table, "%s",
                   e->longest_us == 0 ? "-" : units_seconds((double)e->longest_us / 1e6, time));
        table_cell(table, "%s", trace_tier_name(e->line.tier));
        table_cell(table, "%u", e->processes);
        table_cell(table, "%s", trace_entry_text(&e->line, text));
    }
    return table_print(table, stdout, err);
}

static void print_totals(const struct trace_job *job)
{
    char waited[UNITS_TEXT_MAX], plans[DB_NAME_MAX], kernels[DB_NAME_MAX];
    const struct trace_totals t = trace_job_totals(job);
    printf("\n%zu process%s, %s, %s, %zu failed; waited %s in total\n", job->process_count,
           job->process_count == 1 ? "" : "es", db_count(t.plans, "plan", plans),
           db_count(t.kernels, "kernel", kernels), t.failed,
           units_seconds((double)t.waited_us / 1e6, waited));
}

static int print_json(const struct trace_job *job, struct kiln_error *err)
{
    const struct trace_totals t = trace_job_totals(job);
    KILN_AUTO(json) struct json *json = json_object();
    struct json *entries = json_array();
    for (size_t i = 0; i < job->count; i++)
        json_append(entries, trace_entry_json(job->entries[i]));
    json_set_u64(json, "processes", job->process_count);
    json_set_u64(json, "plans", t.plans);
    json_set_u64(json, "kernels", t.kernels);
    json_set_u64(json, "failed", t.failed);
    json_set_number(json, "waited_s", (double)t.waited_us / 1e6);
    json_set_u64(json, "cut", t.cut);
    json_set_u64(json, "damaged", t.damaged);
    json_set(json, "entries", entries);
    return output_json(json, err);
}

static int run_trace_show(const struct invocation *invocation, struct kiln_error *err)
{
    const struct show_options *o = invocation->options;
    TRACE_JOB_AUTO struct trace_job job = { 0 };
    int rc = trace_job_read(invocation->words[0], &job, err);
    if (rc)
        return rc;
    trace_job_print_damage(&job);
    if (invocation->common->json)
        return print_json(&job, err);
    if (o->problems)
        return print_problems(&job, err);
    rc = print_table(&job, err);
    if (!rc)
        print_totals(&job);
    return rc;
}

const struct command command_trace_show = {
    .name = "trace show",
    .words = "JOB|FILE",
    .summary = "show what a job used, in the order of first use",
    .help =
        "Shows each plan and kernel that the processes of JOB used, in the order of first use:\n"
        "when it was wanted, since the start of the process; the longest wait of a process; where\n"
        "kilnd had it; and how many processes used it.  A kernel of a plan is below the plan,\n"
        "whose wait contains the kernel's.  A word with '/' is a file: ./NAME.trace.\n"
        "\n"
        "--problems prints command lines for other commands, such as 'pkg build --problems -'.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct show_options),
    .run = run_trace_show,
};
