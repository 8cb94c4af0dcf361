/* SPDX-License-Identifier: MIT */
#pragma once

/* Runs the steps of a tuning job in one call, except the last step, which takes the result over. */
#include "engine/tuning/tuning.h"

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
