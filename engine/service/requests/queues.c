/* SPDX-License-Identifier: MIT */
#include "engine/service/requests/queues.h"

#include <stdlib.h>

#define ADMIN_MAX_UID 4
#define ADMIN_MAX_UID_ADMIN 32
/* A client asks one question about solvers at a time. A user may have a client for each GPU. */
#define SOLVER_QUESTIONS_MAX 1024
#define SOLVER_QUESTIONS_MAX_UID 256
/* A client also sends one put at a time. */
#define TUNING_PUTS_MAX 1024
#define TUNING_PUTS_MAX_UID 64
/* Each request compile_begin is from one thread of a job that waits for a kernel. */
#define COMPILE_WAITS_MAX_UID 1024

static void init_group(struct request_group *group, const char *noun)
{
    *group = (struct request_group){ .noun = noun };
    list_init(&group->members);
}

/* For requests that also join groups (struct request_group), which limit their number. */
static void init_unbounded(struct request_queue *queue)
{
    const struct fair_queue_options options = { .noun = "requests" };
    request_queue_init(queue, &options);
}

enum kiln_code requests_create(struct requests **ret_requests, struct kiln_err *err)
{
    const struct fair_queue_options questions = { .max = SOLVER_QUESTIONS_MAX,
                                                  .max_uid = SOLVER_QUESTIONS_MAX_UID,
                                                  .noun =
                                                      "queries about solvers and their configs" };
    struct requests *r = calloc(1, sizeof(*r));
    if (!r)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open the queues of requests");
    init_group(&r->admin, "administrative requests");
    r->admin.max_uid = ADMIN_MAX_UID;
    r->admin.max_uid_admin = ADMIN_MAX_UID_ADMIN;
    init_group(&r->verifications, "verifications of packages");
    r->verifications.max = 1; /* each occupies a reader thread while it reads a whole package */
    /* A build takes memory, descriptors and time on a work queue. */
    init_group(&r->builds, "package builds");
    r->builds.max_uid = r->builds.max_uid_admin = 1;
    init_group(&r->lease_waits, "requests for a lease"); /* engine/tuning/lease.c limits them */
    init_group(&r->compile_waits, "waits for compiles of other processes");
    r->compile_waits.max_uid = r->compile_waits.max_uid_admin = COMPILE_WAITS_MAX_UID;
    init_group(&r->tuning_puts, "changes of tuning records");
    r->tuning_puts.max = TUNING_PUTS_MAX;
    r->tuning_puts.max_uid = r->tuning_puts.max_uid_admin = TUNING_PUTS_MAX_UID;
    init_unbounded(&r->scans);
    init_unbounded(&r->build_steps);
    init_unbounded(&r->import_steps);
    request_queue_init(&r->solver_questions, &questions);
    *ret_requests = r;
    return KILN_OK;
}

void requests_destroy(struct requests *r)
{
    if (!r)
        return;
    request_queue_done(&r->scans);
    request_queue_done(&r->solver_questions);
    request_queue_done(&r->build_steps);
    request_queue_done(&r->import_steps);
    hash_table_done(&r->compiles);
    free(r);
}
