/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * In-flight requests. An in-flight request is one look-up and, if needed, one compile of a kernel,
 * with all callers that wait for it. fetch.h is the interface for callers.
 *
 * Ownership  an in-flight request owns copies of its source and name; its tickets belong to the
 *            callers. The user who asked first is charged for the in-flight request
 * Threading  the engine's thread; while the task is on a work queue, only the task uses the fields
 *            that it fills
 */
#include "engine/service/kernels/fetch.h"
#include "engine/service/kernels/kernel_lookup.h"

/* FLEET: waiting for the fleet. QUEUED: waiting for a compiler, or being compiled. */
enum stage { LOOKING, FLEET, QUEUED, SEALING, DELIVERING };

struct fleet_query;

struct inflight {
    /* must be first, because compile_done casts |order| to a struct inflight */
    struct compile_order order;
    struct task task; /* the look-up; later, the sealing of the object */
    struct hash_link by_place;
    struct engine *engine;
    struct digest place; /* the request's key in the table; a fetch with the same key joins it */
    struct digest asked;
    enum stage stage;
    bool no_cache;
    struct source *source; /* owned; NULL: nothing can be compiled */
    struct name_key *name_key;
    struct fleet_query *fleet; /* borrowed; valid while the stage is FLEET */
    struct object *original;   /* owned reference; NULL: no object is copied (inflight_copy.h) */
    struct object_copying copying;
    uint64_t copy_charged;
    uint64_t generation;         /* hot_set_generation() when the look-up began */
    struct list tickets;         /* of struct fetch_ticket, the newest first; borrowed */
    uid_t uid;                   /* the user who asked first */
    struct kernel_lookup lookup; /* its object is moved to |object| below */
    /* The next three members are filled on a work queue. */
    struct object *object;
    enum tier tier;
    enum kiln_code found;
    struct fetch_result *result; /* owned; set while tickets remain that did not get the result */
    struct lookup_report *report;
};

struct inflights;

KILN_MUST_CHECK enum kiln_code inflights_create(struct inflights **ret_inflights,
                                                struct kiln_err *err);
void inflights_destroy(struct inflights *inflights);
unsigned inflights_count(const struct inflights *inflights);

/* Creates an in-flight request, but does not add it to the table. Returns KILN_BUSY if the asker's
 * budget is used up. */
KILN_MUST_CHECK enum kiln_code inflight_create(struct engine *e, const struct digest *asked,
                                               const struct fetch_ticket *asker,
                                               struct inflight **ret_inflight,
                                               struct kiln_err *err);
void inflight_destroy(struct inflight *f);
struct inflight *inflight_of_task(struct task *t);

/* Returns the key of a fetch in the table of in-flight requests. A fetch by name may be answered
 * from packages, and a fetch with |only_stored| does not wait for compiles, so each of them joins
 * only identical fetches. A kernel that must be compiled is still compiled only once
 * (inflight_compile_or_join). */
struct digest inflight_place(const struct digest *key, const struct fetch_options *options);
struct inflight *inflight_find(struct engine *e, const struct digest *place);
void inflight_enter_table(struct inflight *f, const struct digest *place);
void inflight_leave_table(struct inflight *f);

void inflight_attach(struct inflight *f, struct fetch_ticket *t);
void inflight_detach(struct fetch_ticket *t);
