/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/trace_used.h"

#include "cli/kilnctl/trace_entry.h"
#include "cli/kilnctl/trace_job.h"
#include "cli/output.h"

#include <string.h>

struct comparison {
    struct trace_job used, fetched;
    size_t needed, used_fetched;
    /* number of prefetched kernels that kilnd no longer had when the job requested them: they were
     * compiled again, or the request failed */
    size_t lost;
    /* Numbers of missing kernels.  A kernel is missing if it was not prefetched, or if it is lost.
     * |missing_compiled|: the job waited for the compile.  |missing_found|: kilnd had the kernel,
     * although not from the prefetch.  |missing_failed|: the request failed. */
    size_t missing_compiled, missing_found, missing_failed;
};

static void comparison_done(struct comparison *c)
{
    trace_job_done(&c->used);
    trace_job_done(&c->fetched);
}

/* ---- which files ---- */

/* A turn is the newest run of a job, together with the prefetches just before that run.  A job has
 * one file for each prefetch and one for each process of a run.  Ordered by their start times,
 * there are first some prefetches, then the processes of a run, then further prefetches, and so
 * on. */
struct turn {
    uint64_t prefetch_us; /* start time of the first of these prefetches */
    uint64_t run_us;      /* start time of the run's first process */
};

struct start {
    uint64_t us;
    bool is_prefetch;
};

static int compare_starts(const void *a, const void *b)
{
    const struct start *x = a, *y = b;
    return x->us < y->us ? -1 : x->us > y->us;
}

static int read_starts(const char *word, struct start **ret_starts, size_t *ret_count,
                       struct kiln_error *err)
{
    static const char *const endings[2] = { TRACE_ENDING, TRACE_PREFETCH_ENDING };
    struct start *starts = NULL;
    size_t count = 0;
    int rc = KILN_E_OK;
    for (size_t e = 0; !rc && e < 2; e++) {
        TRACE_JOB_AUTO struct trace_job job = { 0 };
        const struct trace_question question = { .word = word, .ending = endings[e] };
        rc = trace_job_ask(&question, &job, err);
        if (rc == KILN_E_NOT_FOUND && e == 1)
            rc = cli_fail(err, rc,
                          "there was no prefetch of the job '%.100s': run 'kilnctl trace prefetch' "
                          "before the job",
                          word);
        if (rc)
            break;
        struct start *grown = reallocarray(starts, count + job.process_count, sizeof(*starts));
        if (!grown) {
            rc = cli_fail(err, KILN_E_NO_MEMORY, "out of memory for %zu files", count);
            break;
        }
        starts = grown;
        for (size_t i = 0; i < job.process_count; i++)
            starts[count++] = (struct start){ job.processes[i].process.start_us, e == 1 };
    }
    *ret_starts = starts;
    *ret_count = count;
    return rc;
}

static bool find_turn(struct start *starts, size_t count, struct turn *ret_turn)
{
    size_t run = count;
    qsort(starts, count, sizeof(*starts), compare_starts);
    while (run > 0 && !starts[run - 1].is_prefetch)
        run--;
    if (run == 0 || run == count)
        return false;
    size_t first = run;
    while (first > 0 && starts[first - 1].is_prefetch)
        first--;
    *ret_turn = (struct turn){ .prefetch_us = starts[first].us, .run_us = starts[run].us };
    return true;
}

static int choose_turn(const char *word, struct turn *ret_turn, struct kiln_error *err)
{
    struct start *starts = NULL;
    size_t count = 0;
    if (strchr(word, '/'))
        return cli_fail(err, KILN_E_INVALID, "--report needs the name of a job, not a file");
    int rc = read_starts(word, &starts, &count, err);
    if (!rc && !find_turn(starts, count, ret_turn))
        rc = cli_fail(err, KILN_E_NOT_FOUND,
                      "no process of the job '%s' wrote a trace since the last prefetch", word);
    free(starts);
    return rc;
}

/* ---- counting ---- */

static bool is_compiled(const struct trace_line *line)
{
    return line->tier == TRACE_COMPILED || line->tier == TRACE_OWN;
}

/* Returns whether the job got the kernel without a compile because of a prefetch. */
static bool is_used(const struct comparison *c, const struct trace_line *line)
{
    return trace_job_find(&c->fetched, line) && !is_compiled(line) && line->tier != TRACE_FAILED;
}

static void count_kernel(struct comparison *c, const struct trace_line *line)
{
    bool used = is_used(c, line);
    c->needed++;
    c->lost += !used && trace_job_find(&c->fetched, line);
    if (used)
        c->used_fetched++;
    else if (line->tier == TRACE_FAILED)
        c->missing_failed++;
    else if (is_compiled(line))
        c->missing_compiled++;
    else
        c->missing_found++;
}

static int compare(const char *word, const struct turn *turn, struct comparison *c,
                   struct kiln_error *err)
{
    const struct trace_question used = { .word = word,
                                         .ending = TRACE_ENDING,
                                         .from_us = turn->run_us };
    const struct trace_question fetched = { .word = word,
                                            .ending = TRACE_PREFETCH_ENDING,
                                            .from_us = turn->prefetch_us,
                                            .until_us = turn->run_us };
    int rc = trace_job_ask(&used, &c->used, err);
    if (!rc)
        rc = trace_job_ask(&fetched, &c->fetched, err);
    for (size_t i = 0; !rc && i < c->used.count; i++)
        if (!trace_is_plan(&c->used.entries[i]->line))
            count_kernel(c, &c->used.entries[i]->line);
    return rc;
}

/* ---- printing ---- */

static size_t count_unused(const struct comparison *c)
{
    return c->fetched.count - c->used_fetched - c->lost;
}

static int print_json(const struct comparison *c, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *json = json_object();
    struct json *missing = json_array();
    for (size_t i = 0; i < c->used.count; i++)
        if (!trace_is_plan(&c->used.entries[i]->line) && !is_used(c, &c->used.entries[i]->line))
            json_append(missing, trace_entry_json(c->used.entries[i]));
    json_set_u64(json, "fetched", c->fetched.count);
    json_set_u64(json, "used", c->used_fetched);
    json_set_u64(json, "lost", c->lost);
    json_set_u64(json, "unused", count_unused(c));
    json_set_u64(json, "needed", c->needed);
    json_set_u64(json, "missing", c->needed - c->used_fetched);
    json_set_u64(json, "missing_compiled", c->missing_compiled);
    json_set_u64(json, "missing_found", c->missing_found);
    json_set_u64(json, "missing_failed", c->missing_failed);
    json_set_u64(json, "processes", c->used.process_count);
    json_set_number(json, "waited_s", (double)trace_job_totals(&c->used).waited_us / 1e6);
    json_set(json, "missing_kernels", missing);
    return output_json(json, err);
}

static int print_table(const struct comparison *c, struct kiln_error *err)
{
    static const struct column columns[] = { { NULL, ALIGN_LEFT }, { NULL, ALIGN_RIGHT } };
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 2);
    table_count(table, "fetched", c->fetched.count);
    table_count(table, "  used", c->used_fetched);
    table_count(table, "  lost before the job", c->lost);
    table_count(table, "  unused", count_unused(c));
    table_count(table, "needed", c->needed);
    table_count(table, "  fetched before", c->used_fetched);
    table_count(table, "  still missing", c->needed - c->used_fetched);
    table_count(table, "    compiled meanwhile", c->missing_compiled);
    table_count(table, "    found anyway", c->missing_found);
    table_count(table, "    failed", c->missing_failed);
    table_count(table, "processes", c->used.process_count);
    table_seconds(table, "waited", (double)trace_job_totals(&c->used).waited_us / 1e6);
    return table_print(table, stdout, err);
}

int trace_used_report(const struct invocation *invocation, struct kiln_error *err)
{
    struct turn turn = { 0 };
    __attribute__((cleanup(comparison_done))) struct comparison c = { 0 };
    int rc = choose_turn(invocation->words[0], &turn, err);
    if (!rc)
        rc = compare(invocation->words[0], &turn, &c, err);
    if (rc)
        return rc;
    trace_job_print_damage(&c.used);
    trace_job_print_damage(&c.fetched);
    return invocation->common->json ? print_json(&c, err) : print_table(&c, err);
}
