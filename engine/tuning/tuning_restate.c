/* SPDX-License-Identifier: MIT */
/* The first steps of JOB_RESTATE: merge what the hosts of a fleet state, and list the host's
 * records that change. */
#include "engine/tuning/tuning_job.h"
#include "engine/tuning/tuning_share.h"

#include "common/base/clock.h"

static void drop_bad_rows(struct tuning_job *job, struct record *record)
{
    size_t kept = 0;
    for (size_t i = 0; i < record->count; i++) {
        struct kiln_err why = KILN_ERR_INIT;
        if (!job_check_row(&record->place, &record->rows[i], &why))
            record->rows[kept++] = record->rows[i];
        else
            job->counts.bad++;
    }
    record->count = kept;
}

static enum kiln_code merge_next(struct tuning_job *job, struct kiln_err *err)
{
    struct record *next = job->statements.records[job->stated];
    drop_bad_rows(job, next);
    job_cap_samples(next);
    enum kiln_code rc = next->count > 0 ? job_merge_statement(job, next, err) : KILN_OK;
    job->statements.records[job->stated++] = NULL;
    record_destroy(next);
    return rc;
}

struct listing {
    struct tuning_job *job;
    enum kiln_code rc;
    struct kiln_err *err;
};

static bool list_merged(void *context, const struct tuning_held *held)
{
    struct listing *l = context;
    l->rc = record_list_add(&l->job->given,
                            record_create(&held->place, held->rows, held->row_count), l->err);
    return l->rc == KILN_OK;
}

/* Lists a record that has entries of the fleet, although the fleet does not have it any longer. */
static bool list_stale(void *context, const struct tuning_held *held)
{
    struct listing *l = context;
    const struct tuning_job *job = l->job;
    struct tuning_row kept[TUNING_ENTRIES_MAX];
    size_t count = 0;
    if (tuning_table_find(job->merged, &held->place))
        return true;
    for (size_t i = 0; job->keeps && i < held->row_count && count < TUNING_ENTRIES_MAX; i++)
        if (tuning_row_is_of_fleet(&held->rows[i]) &&
            job->keeps(job->keeps_context, &held->rows[i]))
            kept[count++] = held->rows[i];
    l->rc = record_list_add(&l->job->given, record_create(&held->place, kept, count), l->err);
    return l->rc == KILN_OK;
}

static enum kiln_code list_all(struct tuning_job *job, uint64_t end_ns, bool *ret_more,
                               struct kiln_err *err)
{
    struct listing l = { .job = job, .err = err };
    while (!job->is_listed && !l.rc && clock_monotonic_ns() < end_ns) {
        bool goes_on = tuning_table_visit(job->merged, &job->merged_next, list_merged, &l);
        job->is_listed = goes_on && job->merged_next == 0;
    }
    if (job->is_listed && !l.rc) {
        job->walk.selection = &job->selection;
        job->walk.each = list_stale;
        job->walk.context = &l;
        tuning_walk_step(job->tuning, &job->walk, end_ns);
    }
    *ret_more = !l.rc && !(job->is_listed && job->walk.is_over);
    return l.rc;
}

enum kiln_code job_list_restated(struct tuning_job *job, uint64_t end_ns, bool *ret_more,
                                 struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    *ret_more = true;
    while (!rc && job->stated < job->statements.count) {
        rc = merge_next(job, err);
        if (clock_monotonic_ns() >= end_ns)
            return rc;
    }
    return rc ? rc : list_all(job, end_ns, ret_more, err);
}
