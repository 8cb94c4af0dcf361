/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/trace_job.h"
#include "cli/output.h"
#include "common/base/units.h"

#include <string.h>

struct listing {
    struct table *table; /* NULL with --json */
    struct json *json;
    size_t count;
};

static void listing_done(struct listing *l)
{
    table_destroy(l->table);
    json_destroy(l->json);
}

static struct json *totals_json(const char *name, const struct trace_totals *t, size_t processes)
{
    struct json *json = json_object();
    json_set_text(json, "job", name);
    json_set_u64(json, "processes", processes);
    json_set_u64(json, "plans", t->plans);
    json_set_u64(json, "kernels", t->kernels);
    json_set_u64(json, "failed", t->failed);
    json_set_number(json, "waited_s", (double)t->waited_us / 1e6);
    json_set_u64(json, "last", t->last_us / 1000000u);
    json_set_u64(json, "cut", t->cut);
    json_set_u64(json, "damaged", t->damaged);
    return json;
}

static void add_job_row(struct table *table, const char *name, const struct trace_totals *t,
                        size_t processes)
{
    char waited[UNITS_TEXT_MAX], when[UNITS_TEXT_MAX];
    table_cell(table, "%s", name);
    table_cell(table, "%zu", processes);
    table_cell(table, "%zu", t->plans);
    table_cell(table, "%zu", t->kernels);
    table_cell(table, "%s", units_seconds((double)t->waited_us / 1e6, waited));
    table_cell(table, "%s", units_when(t->last_us / 1000000u, when));
}

static int add_job(void *context, const char *name, struct kiln_error *err)
{
    struct listing *l = context;
    TRACE_JOB_AUTO struct trace_job job = { 0 };
    int rc = trace_job_read(name, &job, err);
    if (rc && rc != KILN_E_NO_MEMORY) {
        if (rc != KILN_E_NOT_FOUND)
            output_error(stderr, "kilnctl", err, NULL);
        *err = (struct kiln_error){ 0 };
        return KILN_E_OK;
    }
    const struct trace_totals totals = trace_job_totals(&job);
    l->count++;
    if (!rc && l->table)
        add_job_row(l->table, name, &totals, job.process_count);
    else if (!rc)
        json_append(l->json, totals_json(name, &totals, job.process_count));
    return rc;
}

static int list_jobs(struct listing *l, struct kiln_error *err)
{
    int rc = trace_each_job(add_job, l, err);
    if (rc || !l->table)
        return rc;
    if (l->count)
        return table_print(l->table, stdout, err);
    puts("there are no traces; jobs write them if KILN_TRACE names the job");
    return KILN_E_OK;
}

static struct json *process_json(const struct trace_process *p)
{
    struct json *json = json_object();
    json_set_text(json, "file", p->path);
    json_set_bytes(json, "host", p->process.host);
    json_set_u64(json, "pid", p->process.pid);
    json_set_bytes(json, "software", p->process.rest);
    json_set_u64(json, "start", p->process.start_us / 1000000u);
    json_set_u64(json, "plans", p->plans);
    json_set_u64(json, "kernels", p->kernels);
    json_set_number(json, "waited_s", (double)p->waited_us / 1e6);
    json_set_bool(json, "cut", p->is_cut);
    json_set_u64(json, "damaged", p->damaged);
    return json;
}

static void add_process_row(struct table *table, const struct trace_process *p)
{
    char waited[UNITS_TEXT_MAX], when[UNITS_TEXT_MAX];
    table_cell(table, "%s", units_when(p->process.start_us / 1000000u, when));
    table_cell(table, "%zu", p->plans);
    table_cell(table, "%zu", p->kernels);
    table_cell(table, "%s", units_seconds((double)p->waited_us / 1e6, waited));
    table_cell(table, "%s%s",
               p->is_cut    ? "cut"
               : p->damaged ? ""
                            : "-",
               p->damaged ? p->is_cut ? ", damaged" : "damaged" : "");
    table_cell(table, "%s", p->path);
}

static int list_processes(struct listing *l, const char *word, struct kiln_error *err)
{
    TRACE_JOB_AUTO struct trace_job job = { 0 };
    int rc = trace_job_read(word, &job, err);
    for (size_t i = 0; !rc && i < job.process_count; i++) {
        if (l->table)
            add_process_row(l->table, &job.processes[i]);
        else
            json_append(l->json, process_json(&job.processes[i]));
    }
    return rc || !l->table ? rc : table_print(l->table, stdout, err);
}

static int run_trace_ls(const struct invocation *invocation, struct kiln_error *err)
{
    static const struct column jobs[] = {
        { "JOB", ALIGN_LEFT },      { "PROCESSES", ALIGN_RIGHT }, { "PLANS", ALIGN_RIGHT },
        { "KERNELS", ALIGN_RIGHT }, { "WAITED", ALIGN_RIGHT },    { "LAST START", ALIGN_LEFT },
    };
    static const struct column processes[] = {
        { "START", ALIGN_LEFT },   { "PLANS", ALIGN_RIGHT }, { "KERNELS", ALIGN_RIGHT },
        { "WAITED", ALIGN_RIGHT }, { "STATE", ALIGN_LEFT },  { "FILE", ALIGN_LEFT },
    };
    const char *word = invocation->word_count ? invocation->words[0] : NULL;
    bool wants_json = invocation->common->json;
    __attribute__((cleanup(listing_done))) struct listing l = {
        .table = wants_json ? NULL : table_create(word ? processes : jobs, 6),
        .json = wants_json ? json_array() : NULL,
    };
    if (!wants_json && !l.table)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory");
    int rc = word ? list_processes(&l, word, err) : list_jobs(&l, err);
    if (rc || !wants_json)
        return rc;
    KILN_AUTO(json) struct json *json = json_object();
    json_set(json, word ? "processes" : "jobs", KILN_TAKE(l.json));
    return output_json(json, err);
}

const struct command command_trace_ls = {
    .name = "trace ls",
    .words = "[JOB]",
    .summary = "list the jobs that wrote traces, or the processes of one",
    .help =
        "Lists this user's jobs that ran with KILN_TRACE=NAME: how many plans and kernels they\n"
        "used, and how long their processes waited for them in total.  With JOB, lists each\n"
        "process with its file; 'cut' means that the file reached a limit.  Traces are text\n"
        "files below ~/.cache/kiln/traces; remove what you no longer need.",
    .most_words = 1,
    .run = run_trace_ls,
};
