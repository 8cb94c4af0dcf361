/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/trace_used.h"

#include "cli/kilnctl/trace_compare.h"
#include "cli/kilnctl/trace_entry.h"
#include "cli/output.h"

#include <string.h>

/* ---- which files ---- */

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

static bool find_turn(struct start *starts, size_t count, struct trace_turn *ret_turn)
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
    *ret_turn = (struct trace_turn){ .prefetch_us = starts[first].us, .run_us = starts[run].us };
    return true;
}

static int choose_turn(const char *word, struct trace_turn *ret_turn, struct kiln_error *err)
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

/* ---- printing ---- */

static int print_json(const struct trace_comparison *c, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *json = json_object();
    struct json *missing = json_array();
    for (size_t i = 0; i < c->used.count; i++)
        if (trace_comparison_lacks(c, &c->used.entries[i]->line))
            json_append(missing, trace_entry_json(c->used.entries[i]));
    trace_use_to_json(&c->use, json);
    json_set_u64(json, "processes", c->used.process_count);
    json_set_number(json, "waited_s", (double)trace_job_totals(&c->used).waited_us / 1e6);
    json_set(json, "missing_kernels", missing);
    return output_json(json, err);
}

static int print_table(const struct trace_comparison *c, struct kiln_error *err)
{
    static const struct column columns[] = { { NULL, ALIGN_LEFT }, { NULL, ALIGN_RIGHT } };
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 2);
    table_count(table, "fetched", c->use.fetched);
    table_count(table, "  used", c->use.used);
    table_count(table, "  lost before the job", c->use.lost);
    table_count(table, "  unused", trace_use_unused(&c->use));
    table_count(table, "needed", c->use.needed);
    table_count(table, "  fetched before", c->use.used);
    table_count(table, "  still missing", trace_use_missing(&c->use));
    table_count(table, "    compiled meanwhile", c->use.missing_compiled);
    table_count(table, "    found anyway", c->use.missing_found);
    table_count(table, "    failed", c->use.missing_failed);
    table_count(table, "processes", c->used.process_count);
    table_seconds(table, "waited", (double)trace_job_totals(&c->used).waited_us / 1e6);
    return table_print(table, stdout, err);
}

int trace_used_report(const struct invocation *invocation, struct kiln_error *err)
{
    struct trace_turn turn = { 0 };
    TRACE_COMPARISON_AUTO struct trace_comparison c = { 0 };
    int rc = choose_turn(invocation->words[0], &turn, err);
    if (!rc)
        rc = trace_compare(invocation->words[0], &turn, &c, err);
    if (rc)
        return rc;
    trace_job_print_damage(&c.used);
    trace_job_print_damage(&c.fetched);
    return invocation->common->json ? print_json(&c, err) : print_table(&c, err);
}
