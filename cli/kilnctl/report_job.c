/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/report_job.h"

#include "cli/kilnctl/trace_entry.h"

#include <string.h>

/* ---- runs ---- */

enum report_kind report_run_kind(const struct report_run *run)
{
    return run->run.prefetch_us           ? REPORT_PREFETCHED
           : trace_run_is_cold(&run->run) ? REPORT_COLD
                                          : REPORT_WARM;
}

const struct report_run *report_job_newest(const struct report_job *job, enum report_kind kind)
{
    for (size_t i = job->run_count; i-- > 0;)
        if (report_run_kind(&job->runs[i]) == kind)
            return &job->runs[i];
    return NULL;
}

const struct report_run *report_job_last(const struct report_job *job)
{
    for (size_t i = job->run_count; i-- > 0;)
        if (trace_run_is_cold(&job->runs[i].run))
            return &job->runs[i];
    return &job->runs[job->run_count - 1];
}

double report_run_savable(const struct report_job *job, const struct report_run *run)
{
    const struct trace_wait *w = &run->run.avoidable;
    double left = (double)w->count * job->hot_s;
    return w->seconds > left ? w->seconds - left : 0;
}

static void set_hot(struct report_job *job, const struct trace_runs *runs)
{
    struct trace_wait sum = { 0 };
    for (size_t i = 0; i < runs->count; i++) {
        sum.seconds += runs->list[i].hot.seconds;
        sum.count += runs->list[i].hot.count;
    }
    job->hot_s = sum.count ? sum.seconds / (double)sum.count : 0;
}

/* Returns when the run after |i| started; 0 if there is none. */
static uint64_t end_of_run(const struct report_job *job, size_t i)
{
    return i + 1 < job->run_count ? job->runs[i + 1].run.start_us : 0;
}

static int set_use(struct report_job *job, size_t i, struct kiln_error *err)
{
    struct report_run *r = &job->runs[i];
    TRACE_COMPARISON_AUTO struct trace_comparison c = { 0 };
    const struct trace_turn turn = { .prefetch_us = r->run.prefetch_us,
                                     .run_us = r->run.start_us,
                                     .until_us = end_of_run(job, i) };
    if (!r->run.prefetch_us)
        return KILN_E_OK;
    int rc = trace_compare(job->name, &turn, &c, err);
    r->has_use = !rc;
    r->use = c.use;
    return rc;
}

static int set_runs(struct report_job *job, const struct trace_runs *runs, struct kiln_error *err)
{
    int rc = KILN_E_OK;
    job->older_runs = runs->count > REPORT_RUNS_MAX ? runs->count - REPORT_RUNS_MAX : 0;
    job->run_count = runs->count - job->older_runs;
    for (size_t i = 0; i < job->run_count; i++)
        job->runs[i].run = runs->list[job->older_runs + i];
    for (size_t i = 0; !rc && i < job->run_count; i++)
        rc = set_use(job, i, err);
    return rc;
}

/* ---- the longest waits ---- */

static void add_wait(struct report_job *job, const struct trace_entry *entry)
{
    size_t at = job->wait_count;
    struct report_wait wait = { .seconds = (double)entry->longest_us / 1e6,
                                .tier = entry->line.tier,
                                .processes = entry->processes };
    while (at > 0 && job->waits[at - 1].seconds < wait.seconds)
        at--;
    if (at == REPORT_WAITS_MAX || entry->longest_us == 0)
        return;
    job->wait_count += job->wait_count < REPORT_WAITS_MAX;
    memmove(&job->waits[at + 1], &job->waits[at], (job->wait_count - at - 1) * sizeof(wait));
    trace_entry_text(&entry->line, wait.text);
    job->waits[at] = wait;
}

static int set_waits(struct report_job *job, struct kiln_error *err)
{
    const struct report_run *run = report_job_last(job);
    TRACE_JOB_AUTO struct trace_job traces = { 0 };
    const struct trace_question question = { .word = job->name,
                                             .ending = TRACE_ENDING,
                                             .from_us = run->run.start_us,
                                             .until_us =
                                                 end_of_run(job, (size_t)(run - job->runs)) };
    int rc = trace_job_ask(&question, &traces, err);
    for (size_t i = 0; !rc && i < traces.count; i++)
        if (traces.entries[i]->line.kind != TRACE_OBJECT)
            add_wait(job, traces.entries[i]);
    return rc;
}

/* ---- a job ---- */

static int read_prefetches(const char *name, struct trace_job *job, struct kiln_error *err)
{
    const struct trace_question question = { .word = name, .ending = TRACE_PREFETCH_ENDING };
    int rc = trace_job_ask(&question, job, err);
    if (rc != KILN_E_NOT_FOUND)
        return rc;
    *err = (struct kiln_error){ 0 };
    return KILN_E_OK;
}

int report_job_read(const char *name, struct report_job *ret_job, struct kiln_error *err)
{
    TRACE_JOB_AUTO struct trace_job traces = { 0 };
    TRACE_JOB_AUTO struct trace_job prefetches = { 0 };
    TRACE_RUNS_AUTO struct trace_runs runs = { 0 };
    struct report_job *job = ret_job;
    *job = (struct report_job){ 0 };
    if (strchr(name, '/') || !trace_job_name(name, job->name))
        return cli_fail(err, KILN_E_INVALID, "'%.100s' is not the name of a job", name);
    const struct trace_question own = { .word = job->name, .ending = TRACE_ENDING };
    int rc = trace_job_ask(&own, &traces, err);
    if (!rc)
        rc = read_prefetches(job->name, &prefetches, err);
    if (!rc)
        rc = trace_runs_make(&traces, &prefetches, &runs, err);
    if (rc)
        return rc;
    const struct trace_totals totals = trace_job_totals(&traces);
    job->damaged = totals.damaged;
    job->cut = totals.cut;
    job->refused = traces.refused;
    set_hot(job, &runs);
    rc = set_runs(job, &runs, err);
    return rc ? rc : set_waits(job, err);
}

/* ---- JSON ---- */

static struct json *wait_json(const struct trace_wait *wait)
{
    struct json *json = json_object();
    json_set_number(json, "waited_s", wait->seconds);
    json_set_u64(json, "count", wait->count);
    return json;
}

static struct json *run_json(const struct report_job *job, const struct report_run *r)
{
    const struct trace_run *run = &r->run;
    struct json *json = json_object(), *causes = json_object();
    for (int i = 0; i < CAUSES; i++)
        json_set(causes, trace_cause_name((enum trace_cause)i), wait_json(&run->waits[i]));
    json_set_u64(json, "start", run->start_us / 1000000u);
    json_set_u64(json, "processes", run->count);
    json_set_u64(json, "hosts", run->hosts);
    json_set_bool(json, "cold", trace_run_is_cold(run));
    json_set_number(json, "waited_s", trace_run_waited(run));
    json_set_number(json, "longest_s", run->longest_s);
    json_set_number(json, "prefetch_would_save_s", report_run_savable(job, r));
    json_set(json, "causes", causes);
    if (r->has_use) {
        struct json *use = json_object();
        trace_use_to_json(&r->use, use);
        json_set(json, "prefetch", use);
    }
    return json;
}

struct json *report_job_json(const struct report_job *job)
{
    struct json *json = json_object(), *runs = json_array(), *waits = json_array();
    for (size_t i = 0; i < job->run_count; i++)
        json_append(runs, run_json(job, &job->runs[i]));
    for (size_t i = 0; i < job->wait_count; i++) {
        struct json *wait = json_object();
        json_set_number(wait, "waited_s", job->waits[i].seconds);
        json_set_text(wait, "from", trace_tier_name(job->waits[i].tier));
        json_set_u64(wait, "processes", job->waits[i].processes);
        json_set_text(wait, "what", job->waits[i].text);
        json_append(waits, wait);
    }
    json_set_text(json, "job", job->name);
    json_set(json, "runs", runs);
    json_set_u64(json, "older_runs", job->older_runs);
    json_set(json, "longest_waits", waits);
    json_set_u64(json, "damaged", job->damaged);
    json_set_u64(json, "cut", job->cut);
    json_set_u64(json, "refused", job->refused);
    return json;
}
