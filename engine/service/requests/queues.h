/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The request groups and request queues of the engine (deferred.h). A group limits the number of
 * its deferred requests. In a queue, deferred requests wait for their next step.
 *
 * Ownership  the engine owns the struct; requests join and leave by themselves
 * Threading  the engine's thread
 */
#include "engine/service/deferred.h"

enum request_group_id {
    GROUP_ADMIN,
    GROUP_VERIFICATIONS,
    GROUP_BUILDS,
    GROUP_LEASE_WAITS,
    GROUP_COMPILE_WAITS,
    GROUP_TUNING_PUTS,
    REQUEST_GROUPS
};

enum request_queue_id {
    /* Scans and exports run one step at a time, so that fetches can use the other reader
     * threads. */
    QUEUE_SCANS,
    /* Questions that search tuning spaces take milliseconds, so they run one at a time, too. */
    QUEUE_SOLVER_QUESTIONS,
    QUEUE_BUILD_STEPS,
    QUEUE_IMPORT_STEPS, /* imports unpack one at a time */
    REQUEST_QUEUES
};

struct requests;

KILN_MUST_CHECK enum kiln_code requests_create(struct requests **ret_requests,
                                               struct kiln_err *err);
/* No deferred request may be left. */
void requests_destroy(struct requests *requests);
struct request_group *requests_group(struct requests *requests, enum request_group_id id);
struct request_queue *requests_queue(struct requests *requests, enum request_queue_id id);
