/* SPDX-License-Identifier: MIT */
#include "engine/service/requests/queues.h"

#include <stdlib.h>

#define ADMIN_MAX_UID 4
#define ADMIN_MAX_UID_ADMIN 32
/* Maximum numbers of requests about solvers, in total and of one user. A client sends one at a
 * time, and a user may have a client for each GPU. */
#define SOLVER_QUESTIONS_MAX 1024
#define SOLVER_QUESTIONS_MAX_UID 256
/* Maximum numbers of changes of tuning records. A client sends one put at a time. */
#define TUNING_PUTS_MAX 1024
#define TUNING_PUTS_MAX_UID 64
/* Maximum number of compile_begin requests of one user that wait. Each is from one thread of a
 * job. */
#define COMPILE_WAITS_MAX_UID 1024

struct requests {
    struct request_group groups[REQUEST_GROUPS];
    struct request_queue queues[REQUEST_QUEUES];
};

static const struct request_group group_limits[REQUEST_GROUPS] = {
    [GROUP_ADMIN] = { .noun = "administrative requests",
                      .max_uid = ADMIN_MAX_UID,
                      .max_uid_admin = ADMIN_MAX_UID_ADMIN },
    /* Only one verification at a time, because it occupies a reader thread while it reads a whole
     * package. */
    [GROUP_VERIFICATIONS] = { .noun = "verifications of packages", .max = 1 },
    /* Only one build for each user, because it takes memory, descriptors and time on a work
     * queue. */
    [GROUP_BUILDS] = { .noun = "package builds", .max_uid = 1, .max_uid_admin = 1 },
    /* engine/tuning/lease.c limits these requests. */
    [GROUP_LEASE_WAITS] = { .noun = "requests for a lease" },
    [GROUP_COMPILE_WAITS] = { .noun = "waits for compiles of other processes",
                              .max_uid = COMPILE_WAITS_MAX_UID,
                              .max_uid_admin = COMPILE_WAITS_MAX_UID },
    [GROUP_TUNING_PUTS] = { .noun = "changes of tuning records",
                            .max = TUNING_PUTS_MAX,
                            .max_uid = TUNING_PUTS_MAX_UID,
                            .max_uid_admin = TUNING_PUTS_MAX_UID },
};

/* A queue without a limit needs none, because each of its requests also joins a group with a
 * limit. */
static const struct fair_queue_options queue_options[REQUEST_QUEUES] = {
    [QUEUE_SCANS] = { .noun = "requests" },
    [QUEUE_SOLVER_QUESTIONS] = { .max = SOLVER_QUESTIONS_MAX,
                                 .max_uid = SOLVER_QUESTIONS_MAX_UID,
                                 .noun = "queries about solvers and their configs" },
    [QUEUE_BUILD_STEPS] = { .noun = "requests" },
    [QUEUE_IMPORT_STEPS] = { .noun = "requests" },
};

enum kiln_code requests_create(struct requests **ret_requests, struct kiln_err *err)
{
    struct requests *r = calloc(1, sizeof(*r));
    if (!r)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open the queues of requests");
    for (unsigned i = 0; i < REQUEST_GROUPS; i++) {
        r->groups[i] = group_limits[i];
        list_init(&r->groups[i].members);
    }
    for (unsigned i = 0; i < REQUEST_QUEUES; i++)
        request_queue_init(&r->queues[i], &queue_options[i]);
    *ret_requests = r;
    return KILN_OK;
}

void requests_destroy(struct requests *r)
{
    if (!r)
        return;
    for (unsigned i = 0; i < REQUEST_QUEUES; i++)
        request_queue_done(&r->queues[i]);
    free(r);
}

struct request_group *requests_group(struct requests *r, enum request_group_id id)
{
    return &r->groups[id];
}

struct request_queue *requests_queue(struct requests *r, enum request_queue_id id)
{
    return &r->queues[id];
}
