/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * In-flight requests. An in-flight request is one look-up and, if needed, one compile of a kernel,
 * with all callers that wait for it.  Internal to fetch.h.
 *
 * Role       has the state that all steps of fetch.h's diagram use, and the table that finds an
 *            in-flight request by what it fetches
 * Ownership  an in-flight request owns its copies; its tickets belong to the callers.  It is
 *            charged to the user who asked first
 * Threading  the engine's thread; while the task is on a work queue, only the task uses the
 *            fields that it fills
 */
#include "engine/service/kernels/fetch.h"
#include "engine/service/kernels/kernel_lookup.h"

enum stage { LOOKING, QUEUED, SEALING, DELIVERING }; /* QUEUED: waiting or being compiled */

struct inflight {
    struct compile_order order; /* first member: the compile queue passes it to the done callback */
    struct task task;           /* the look-up; later, the sealing of the object */
    struct hash_link by_place;  /* in the table, if it was entered */
    struct engine *engine;
    struct digest place; /* its key in the table; a fetch with the same |place| joins it */
    struct digest asked; /* the kernel's key */
    enum stage stage;
    bool no_cache;
    struct source *source;     /* owned; NULL: there is no source to compile */
    struct name_key *name_key; /* owned; NULL: no name */
    struct object *original;   /* owned reference; NULL: it copies no object (inflight_copy.h) */
    struct object_copying copying; /* of |original| */
    uint64_t copy_charged;         /* bytes of the copy that are charged to the user */
    uint64_t generation;           /* hot_set_generation() when the look-up began */
    struct list tickets;           /* of struct fetch_ticket, the newest first; borrowed */
    uid_t uid;                     /* the user who asked first */
    struct kernel_lookup lookup;   /* the object that it finds is moved to |object| below */
    /* The next three are filled on a work queue. */
    struct object *object; /* owned reference */
    enum tier tier;
    enum kiln_code found;
    struct fetch_result *result;  /* owned; the result for tickets that did not get it yet; NULL:
                                   * none */
    struct lookup_report *report; /* owned; NULL: the look-up found nothing to report */
};

struct inflights; /* the table of in-flight requests */

KILN_MUST_CHECK enum kiln_code inflights_create(struct inflights **ret_inflights,
                                                struct kiln_err *err);
/* There must be no in-flight request. */
void inflights_destroy(struct inflights *inflights);
/* Counts all in-flight requests, also those that are not in the table. */
unsigned inflights_count(const struct inflights *inflights);

/* Creates an in-flight request, which is in no queue and not in the table. It is charged to the
 * asker until it is destroyed. Returns KILN_BUSY if that exceeds the asker's budget. */
KILN_MUST_CHECK enum kiln_code inflight_create(struct engine *e, const struct digest *asked,
                                               const struct fetch_ticket *asker,
                                               struct inflight **ret_inflight,
                                               struct kiln_err *err);
/* No ticket may wait for it. */
void inflight_destroy(struct inflight *f);
struct inflight *inflight_of_task(struct task *t);

/* Returns the place of a fetch in the table. Requests by name may be answered from packages, so
 * they only join identical requests. A kernel that must be compiled is still compiled only once
 * (inflight_compile_or_join). */
struct digest inflight_place(const struct digest *key, const struct fetch_options *options);
/* Finds the in-flight request at |place|. Returns NULL if there is none. */
struct inflight *inflight_find(struct engine *e, const struct digest *place);
/* |place| must be free. */
void inflight_enter_table(struct inflight *f, const struct digest *place);
void inflight_leave_table(struct inflight *f);

void inflight_attach(struct inflight *f, struct fetch_ticket *t);
void inflight_detach(struct fetch_ticket *t);
