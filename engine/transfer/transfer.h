/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Carries out one transfer, from the URL to the checked file.
 *
 *   choose the name -> find the manifest and check its signature -> fetch or copy
 *   -> check size and SHA-256 -> unpack -> check every row
 *
 * Ownership  only this transfer uses job->staging. After a failure, the directory is empty;
 *            after success, it contains the file that the result names, and its manifest
 * Threading  one thread for each transfer; blocks
 */
#include "engine/transfer/fetch.h"

struct transfer_sink {
    void (*progress)(void *context, const struct transfer_progress *progress);
    void *context;
};

/* For stages that are never retried: reports attempt 1 and no note. */
static inline void transfer_report(const struct transfer_sink *sink, const char *stage,
                                   uint64_t done, uint64_t total)
{
    const struct transfer_progress progress = {
        .stage = stage, .done = done, .total = total, .attempt = 1, .note = ""
    };
    sink->progress(sink->context, &progress);
}

void transfer_run(const struct transfer_job *job, const struct fetch_policy *policy,
                  const struct transfer_sink *sink, struct transfer_result *ret_result);
/* Name of the fetched file in the staging directory. Code that empties the directory must know this
 * name. */
#define TRANSFER_FETCHED ".fetched"
