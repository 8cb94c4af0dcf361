/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The request groups, which limit deferred requests, and the request queues, in which these wait
 * (deferred.h).
 *
 * Ownership  the engine's; requests join and leave by themselves
 * Threading  the engine's thread
 */
#include "common/base/hash_table.h"
#include "engine/service/deferred.h"

struct requests {
    struct request_group admin;
    struct request_group verifications;
    struct request_group builds;
    struct request_group lease_waits;
    struct request_group compile_waits;
    struct hash_table compiles;
    uint64_t compile_parts; /* files that compile_end has brought */
    struct request_group tuning_puts;
    /* Scans and exports run one step at a time, so that fetches can use the other reader
     * threads. */
    struct request_queue scans;
    /* Questions that search tuning spaces take milliseconds, so they run one at a time, too. */
    struct request_queue solver_questions;
    struct request_queue build_steps;
    /* Steps of imports unpack one at a time. */
    struct request_queue import_steps;
};

KILN_MUST_CHECK enum kiln_code requests_create(struct requests **ret_requests,
                                               struct kiln_err *err);
/* There must be no request. */
void requests_destroy(struct requests *requests);
