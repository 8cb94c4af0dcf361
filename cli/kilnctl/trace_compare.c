/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/trace_compare.h"

static bool is_compiled(const struct trace_line *line)
{
    return line->tier == TRACE_COMPILED || line->tier == TRACE_OWN;
}

/* Returns whether the job got the kernel without a compile because of a prefetch. */
static bool is_used(const struct trace_comparison *c, const struct trace_line *line)
{
    return trace_job_find(&c->fetched, line) && !is_compiled(line) && line->tier != TRACE_FAILED;
}

static void count_kernel(struct trace_comparison *c, const struct trace_line *line)
{
    bool used = is_used(c, line);
    c->use.needed++;
    c->use.lost += !used && trace_job_find(&c->fetched, line);
    if (used)
        c->use.used++;
    else if (line->tier == TRACE_FAILED)
        c->use.missing_failed++;
    else if (is_compiled(line))
        c->use.missing_compiled++;
    else
        c->use.missing_found++;
}

int trace_compare(const char *word, const struct trace_turn *turn,
                  struct trace_comparison *ret_comparison, struct kiln_error *err)
{
    struct trace_comparison *c = ret_comparison;
    const struct trace_question used = {
        .word = word, .ending = TRACE_ENDING, .from_us = turn->run_us, .until_us = turn->until_us
    };
    const struct trace_question fetched = { .word = word,
                                            .ending = TRACE_PREFETCH_ENDING,
                                            .from_us = turn->prefetch_us,
                                            .until_us = turn->run_us };
    int rc = trace_job_ask(&used, &c->used, err);
    if (!rc)
        rc = trace_job_ask(&fetched, &c->fetched, err);
    c->use.fetched = c->fetched.count;
    for (size_t i = 0; !rc && i < c->used.count; i++)
        if (!trace_is_plan(&c->used.entries[i]->line))
            count_kernel(c, &c->used.entries[i]->line);
    return rc;
}

bool trace_comparison_lacks(const struct trace_comparison *comparison,
                            const struct trace_line *line)
{
    return !trace_is_plan(line) && !is_used(comparison, line);
}

void trace_comparison_done(struct trace_comparison *comparison)
{
    trace_job_done(&comparison->used);
    trace_job_done(&comparison->fetched);
}

size_t trace_use_unused(const struct trace_use *use)
{
    return use->fetched - use->used - use->lost;
}

size_t trace_use_missing(const struct trace_use *use) { return use->needed - use->used; }

void trace_use_to_json(const struct trace_use *use, struct json *json)
{
    json_set_u64(json, "fetched", use->fetched);
    json_set_u64(json, "used", use->used);
    json_set_u64(json, "lost", use->lost);
    json_set_u64(json, "unused", trace_use_unused(use));
    json_set_u64(json, "needed", use->needed);
    json_set_u64(json, "missing", trace_use_missing(use));
    json_set_u64(json, "missing_compiled", use->missing_compiled);
    json_set_u64(json, "missing_found", use->missing_found);
    json_set_u64(json, "missing_failed", use->missing_failed);
}
