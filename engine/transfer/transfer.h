/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Carries out one transfer, from the URL to the checked file.
 *
 *   what is it called -> is there a manifest, and is its signature good -> fetch or copy
 *   -> size and SHA-256 -> unpack -> every row
 *
 * Ownership  what lies in job->staging after a failure is nothing; after success the one file that
 *            the outcome names
 * Threading  one transfer, one thread; blocks
 *
 * job->staging is for this transfer alone.
 */
#include "engine/transfer/fetch.h"

struct transfer_sink { /* receives frequent progress reports */
    void (*progress)(void *context, const struct transfer_progress *progress);
    void *context;
};

void transfer_run(const struct transfer_job *job, const struct fetch_policy *policy,
                  const struct transfer_sink *sink, struct transfer_result *ret_result);
/* A name that a transfer may use in its staging directory in addition to the package's own, for
 * code that must clear the directory. */
#define TRANSFER_FETCHED ".fetched"
