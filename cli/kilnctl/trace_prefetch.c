/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/prefetch_check.h"
#include "cli/kilnctl/prefetch_run.h"
#include "cli/kilnctl/prefetch_stored.h"
#include "cli/kilnctl/trace_groups.h"
#include "cli/kilnctl/trace_used.h"
#include "cli/output.h"
#include "cli/result.h"
#include "common/base/clock.h"

#include <string.h>

struct trace_prefetch_options {
    const char *target, *database_id;
    struct option_number budget, batch;
    bool report;
};

#define AT(field) offsetof(struct trace_prefetch_options, field)
static const struct option options[] = {
    { "budget", 0, OPTION_TIME, AT(budget), "TIME", "stop after this time, such as 90s", 1,
      UINT32_MAX },
    { "target", 't', OPTION_TEXT, AT(target), "TARGET",
      "for this target instead of the trace's: gfx90a, sm_90, ...", 0, 0 },
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID", "MIOpen's name of the device: gfx90a68", 0,
      0 },
    { "batch", 0, OPTION_NUMBER, AT(batch), "N", "for this batch size instead of the trace's", 1,
      INT32_MAX },
    { "report", 0, OPTION_FLAG, AT(report), NULL,
      "after the job: report what it used of the prefetch, and what was missing", 0, 0 },
};
#undef AT

struct work {
    const struct invocation *invocation;
    const struct trace_prefetch_options *o;
    struct trace_job job;
    struct trace_groups groups;
    struct prefetch prefetch;
    /* the .prefetch file; not open if the command names a file instead of a job */
    struct trace_file record;
    uint64_t until_ns;
    size_t keys, keys_ready, keys_missing, keys_of_others;
};

static void work_done(struct work *w)
{
    trace_file_close(&w->record);
    prefetch_done(&w->prefetch);
    trace_groups_done(&w->groups);
    trace_job_done(&w->job);
}

static bool is_over(const struct work *w)
{
    return w->until_ns && clock_monotonic_ns() >= w->until_ns;
}

/* ---- the record ---- */

/* Without a record, --report lacks this prefetch, but the kernels are prefetched all the same: the
 * traces may be in a directory that cannot be written to, such as a home of another host. */
static void open_record(struct work *w, const char *word)
{
    char job[TRACE_JOB_MAX], host[256] = "", name[TRACE_JOB_MAX];
    struct kiln_err why = KILN_ERR_INIT;
    if (strchr(word, '/') || !trace_job_name(word, job))
        return;
    if (gethostname(host, sizeof(host) - 1) != 0 || !trace_job_name(host, name))
        memcpy(name, "host", sizeof("host"));
    const struct trace_line process = { .kind = TRACE_PROCESS,
                                        .start_us = clock_wall_us(),
                                        .host = bytes_of_text(name),
                                        .pid = (uint64_t)getpid(),
                                        .rest = bytes_of_text("kilnctl " KILN_VERSION) };
    if (trace_file_create(job, TRACE_PREFETCH_ENDING, &process, &w->record, &why))
        fprintf(stderr, "kilnctl: --report will not have this prefetch: %s\n", why.text);
}

static enum trace_tier tier_of(int tier)
{
    return tier == KILN_TIER_COMPILED  ? TRACE_COMPILED
           : tier == KILN_TIER_FLEET   ? TRACE_FLEET
           : tier == KILN_TIER_PACKAGE ? TRACE_PACKAGE
           : tier == KILN_TIER_DISK    ? TRACE_DISK
                                       : TRACE_HOT;
}

/* Adds the plan's objects to the record at once, so that the record is complete even if the
 * prefetch is killed. */
static void note_plan(void *context, const struct kiln_plan *plan)
{
    struct work *w = context;
    for (unsigned i = 0; i < kiln_plan_object_count(plan); i++) {
        const char *key = kiln_plan_object_key(plan, i);
        const struct trace_line line = {
            .kind = TRACE_OBJECT,
            .tier = tier_of(kiln_plan_object_tier(plan, i)),
            .compile_us = kiln_plan_object_compile_ns(plan, i) / 1000u,
            .key = bytes_of_text(key),
        };
        if (!prefetch_report_has(&w->prefetch.report, key))
            trace_file_add(&w->record, &line, 1);
    }
}

/* ---- plans ---- */

static const char *word_or_null(const char *word) { return *word ? word : NULL; }

static void note_group_failure(struct work *w, const struct trace_group *group,
                               const struct kiln_error *err)
{
    for (size_t i = 0; i < group->problems.count; i++) {
        char text[512] = "";
        struct kiln_error unused = { 0 };
        if (kiln_problem_to_driver(&group->problems.problems[i], text, sizeof(text), &unused))
            snprintf(text, sizeof(text), "?");
        prefetch_report_failure(&w->prefetch.report, group->problems.lines[i], text, err);
    }
    if (!w->invocation->common->json)
        output_error(stderr, "kilnctl", err, NULL);
}

static bool is_end(int code)
{
    return code == KILN_E_UNAVAILABLE || code == KILN_E_TIMED_OUT || code == KILN_E_DENIED ||
           code == KILN_E_NO_MEMORY;
}

/* Prefetches one group.  Counts the problems that fail, but returns an error only if requests for
 * other groups would fail, too. */
static int prefetch_group(struct work *w, const struct trace_group *group, struct kiln_error *err)
{
    const struct prefetch_question question = {
        .invocation = w->invocation,
        .problems = &group->problems,
        .target = group->target,
        .database_id = word_or_null(group->database_id),
        .toolchain = word_or_null(group->toolchain),
        .solver = word_or_null(group->solver),
        .label = "prefetch",
        .until_ns = w->until_ns,
        .on_plan = note_plan,
        .context = w,
    };
    size_t answered = w->prefetch.report.done + w->prefetch.report.failed;
    int rc = prefetch_run(&question, &w->prefetch, err);
    if (!rc || is_end(rc))
        return rc;
    if (w->prefetch.report.done + w->prefetch.report.failed == answered)
        note_group_failure(w, group, err);
    *err = (struct kiln_error){ 0 };
    return KILN_E_OK;
}

static int prefetch_plans(struct work *w, struct kiln_error *err)
{
    int rc = KILN_E_OK;
    for (size_t i = 0; !rc && i < w->groups.count && !is_over(w); i++)
        rc = prefetch_group(w, w->groups.list[i], err);
    w->prefetch.report.lines = w->prefetch.report.problems = w->groups.problems;
    w->prefetch.begun |= w->prefetch.report.done + w->prefetch.report.failed > 0;
    return rc;
}

static size_t count_left(const struct work *w)
{
    const struct prefetch_report *r = &w->prefetch.report;
    return r->problems - r->done - r->failed;
}

/* ---- kernels that the job requested by their keys ---- */

#define KEYS_TIMEOUT_MS (2 * 60 * 1000)

static int on_kernel(void *context, size_t index, struct kiln_kernel *kernel,
                     const struct kiln_error *err)
{
    struct work *w = context;
    (void)index, (void)err;
    w->keys_ready += kernel != NULL;
    w->keys_missing += kernel == NULL;
    if (kernel) {
        const struct trace_line line = { .kind = TRACE_OBJECT,
                                         .tier = tier_of(kiln_kernel_tier(kernel)),
                                         .key = bytes_of_text(kiln_kernel_key(kernel)) };
        trace_file_add(&w->record, &line, 1);
    }
    return is_over(w);
}

/* Returns whether the kernel of |line| is of use for the requested target and batch size.  A trace
 * has no sources, so this kernel cannot be compiled for another target or batch size. */
static bool is_wanted_key(const struct work *w, const struct trace_line *line)
{
    bool is_other = w->o->batch.given || (w->o->target && line->target.size &&
                                          !bytes_equal_text(line->target, w->o->target));
    return line->kind == TRACE_KERNEL && !is_other;
}

static int fetch_keys(struct work *w, const char *const *keys, size_t count, struct kiln_error *err)
{
    int timeout_ms = session_timeout_ms(w->invocation->common);
    timeout_ms = prefetch_time_left_ms(w->until_ns, timeout_ms ? timeout_ms : KEYS_TIMEOUT_MS);
    const struct kiln_kernel_batch batch = { .size = sizeof(batch),
                                             .keys = keys,
                                             .count = count,
                                             .ready = on_kernel,
                                             .context = w,
                                             .timeout_ms = timeout_ms };
    if (count == 0 || is_over(w))
        return KILN_E_OK;
    int rc = kiln_kernel_fetch_batch(w->invocation->client, &batch, err);
    bool is_cut = rc == KILN_E_CANCELLED || (rc == KILN_E_TIMED_OUT && is_over(w));
    if (is_cut)
        *err = (struct kiln_error){ 0 };
    return is_cut ? KILN_E_OK : rc;
}

static int prefetch_keys(struct work *w, struct kiln_error *err)
{
    char(*texts)[65] = calloc(w->job.count + 1, sizeof(*texts));
    const char **keys = calloc(w->job.count + 1, sizeof(*keys));
    for (size_t i = 0; texts && keys && i < w->job.count; i++) {
        const struct trace_line *line = &w->job.entries[i]->line;
        w->keys_of_others += line->kind == TRACE_KERNEL && !is_wanted_key(w, line);
        if (!is_wanted_key(w, line))
            continue;
        memcpy(texts[w->keys], line->key.data, 64);
        keys[w->keys] = texts[w->keys];
        w->keys++;
    }
    int rc = texts && keys
                 ? fetch_keys(w, keys, w->keys, err)
                 : cli_fail(err, KILN_E_NO_MEMORY, "out of memory for %zu keys", w->job.count);
    free(texts);
    free(keys);
    return rc;
}

/* ---- the command ---- */

static int judge(const struct work *w, struct kiln_error *err)
{
    const struct prefetch_report *r = &w->prefetch.report;
    if (r->incomplete)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory: the report is not complete");
    if (!r->failed && !w->keys_missing)
        return KILN_E_OK;
    char problems[80] = "", kernels[80] = "";
    if (r->failed)
        snprintf(problems, sizeof(problems), "%zu of %zu problems failed", r->failed, r->problems);
    if (w->keys_missing)
        snprintf(kernels, sizeof(kernels), "%s%zu of %zu kernels are not stored",
                 r->failed ? ", " : "", w->keys_missing, w->keys);
    return cli_fail(err, KILN_E_COMPILE_FAILED, "%s%s", problems, kernels);
}

static int prefetch_all(struct work *w, struct kiln_error *err)
{
    struct prefetch_stored kept = { 0 };
    int rc = prefetch_stored_begin(w->invocation, &kept, err);
    if (!rc)
        rc = prefetch_plans(w, err);
    if (!rc)
        rc = prefetch_keys(w, err);
    if (!rc)
        rc = prefetch_stored_check(w->invocation, &kept, &w->prefetch.report, err);
    return rc ? rc : judge(w, err);
}

static struct json *work_json(const struct work *w)
{
    struct json *json = prefetch_report_json(&w->prefetch.report);
    json_set_u64(json, "left", count_left(w));
    json_set_u64(json, "unreadable", w->groups.unreadable);
    json_set_u64(json, "keys", w->keys);
    json_set_u64(json, "keys_ready", w->keys_ready);
    json_set_u64(json, "keys_missing", w->keys_missing);
    json_set_u64(json, "keys_of_other_targets", w->keys_of_others);
    return json;
}

static int print_json(const struct work *w, int rc, struct kiln_error *err)
{
    struct kiln_error unused = { 0 };
    KILN_AUTO(json) struct json *json = work_json(w);
    if (rc)
        json_set(json, "error", result_error_json(err));
    int printed = output_json(json, rc ? &unused : err);
    *w->invocation->reported = rc && !printed;
    return rc ? rc : printed;
}

static void print_work(const struct work *w)
{
    prefetch_report_print(&w->prefetch.report, stdout);
    if (w->keys)
        printf("%zu of %zu kernels that the job requested by key, name or source are stored\n",
               w->keys_ready, w->keys);
    if (w->keys_of_others)
        printf("%zu kernels are for another target or batch size: the job compiles them\n",
               w->keys_of_others);
    if (w->groups.unreadable)
        printf("%zu plans of the trace cannot be read\n", w->groups.unreadable);
    if (count_left(w))
        printf("%zu problems are left: the same command goes on\n", count_left(w));
}

static int run_prefetch(const struct invocation *invocation, struct kiln_error *err)
{
    const struct trace_prefetch_options *o = invocation->options;
    const struct trace_change change = { .target = o->target,
                                         .database_id = o->database_id,
                                         .batch = (uint32_t)o->batch.value,
                                         .in_order = true };
    __attribute__((cleanup(work_done))) struct work w = { .invocation = invocation,
                                                          .o = o,
                                                          .record = { .fd = -1 } };
    if (o->budget.given)
        w.until_ns = clock_monotonic_ns() + o->budget.value * 1000000u;
    int rc = trace_job_read(invocation->words[0], &w.job, err);
    if (!rc)
        rc = trace_groups_make(&w.job, &change, &w.groups, err);
    if (rc)
        return rc;
    open_record(&w, invocation->words[0]);
    trace_job_print_damage(&w.job);
    rc = prefetch_all(&w, err);
    if (rc && is_end(rc) && !w.prefetch.begun)
        return rc;
    if (invocation->common->json)
        return print_json(&w, rc, err);
    print_work(&w);
    return rc;
}

static int run_trace_prefetch(const struct invocation *invocation, struct kiln_error *err)
{
    const struct trace_prefetch_options *o = invocation->options;
    if (o->report && (o->target || o->database_id || o->budget.given || o->batch.given))
        return cli_fail(err, KILN_E_INVALID, "--report takes no other option");
    return o->report ? trace_used_report(invocation, err) : run_prefetch(invocation, err);
}

const struct command command_trace_prefetch = {
    .name = "trace prefetch",
    .words = "JOB|FILE",
    .summary = "compile what a job will need, from its trace",
    .help =
        "Requests every plan of JOB's traces, in the order of first use, so that kilnd compiles\n"
        "and stores the kernels before the job runs again.  Needs no GPU.  --target and --batch\n"
        "replace the trace's target and batch size.  Kernels that the job requested by key, name\n"
        "or source cannot be made from a trace: they are looked up.  A prefetch that was stopped\n"
        "goes on if it runs again: what is stored is not compiled again.\n"
        "\n"
        "After the job, --report says which of the prefetched kernels the job used, and which\n"
        "kernels it used that no prefetch had made ready.  It counts the newest processes of JOB,\n"
        "and the prefetches before them.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct trace_prefetch_options),
    .run = run_trace_prefetch,
};
