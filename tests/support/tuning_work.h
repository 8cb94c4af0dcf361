/* SPDX-License-Identifier: MIT */
#pragma once

#include "engine/tuning/tuning.h"
#include "engine/tuning/tuning_index.h"

/* Calls all steps of a tuning job except the last one, in which the tuning database takes the
 * result. */
static inline enum kiln_code work_all_steps(struct tuning *tuning, struct tuning_job *job,
                                            const struct tuning_job_events *events,
                                            struct kiln_err *err)
{
    enum kiln_code rc = tuning_job_work(job, events, err);
    while (!rc && tuning_job_has_more(job)) {
        while (!tuning_job_take(tuning, job)) {
        }
        rc = tuning_job_work(job, events, err);
    }
    return rc;
}

static inline enum kiln_code tuning_export_file(struct tuning *t, const struct tuning_export *what,
                                                const char *path, struct tuning_counts *ret_counts,
                                                struct kiln_err *err)
{
    KILN_AUTO(tuning_exporter) struct tuning_exporter *out = NULL;
    enum kiln_code rc = tuning_exporter_create(t, what, path, &out, err);
    for (bool more = true; !rc && more;)
        rc = tuning_exporter_step(out, UINT64_MAX, &more, err);
    return rc ? rc : tuning_exporter_finish(out, ret_counts, err);
}

static inline enum kiln_code tuning_index_verify(const struct tuning_index *index,
                                                 struct kiln_err *err)
{
    struct tuning_index_check check = { .at = 0 };
    enum kiln_code rc = KILN_OK;
    for (bool more = true; !rc && more;)
        rc = tuning_index_check_step(index, &check, &more, err);
    return rc;
}
