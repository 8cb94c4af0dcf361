/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One look-up and, where it must be, compile, with all who wait for it; inside of fetch.h.
 *
 * Role       the state that the steps of fetch.h's drawing share, and the table that finds a flight
 *            by what it is asked for
 * Ownership  a flight owns its copies; its tickets are their askers'
 * Threading  the engine's thread; while a lane has the task, it alone touches what is filled there
 */
#include "engine/service/kernels/fetch.h"
#include "engine/service/kernels/kernel_look.h"

enum stage { LOOKING, QUEUED, SEALING, DELIVERING }; /* QUEUED: waiting for a compiler, or in one */

struct inflight {
    struct compile_order order; /* first member: the queue hands it back */
    struct task task;           /* look-up, then sealing */
    struct hash_link by_place;  /* in the table, or in none */
    struct engine *engine;
    struct digest place; /* in the table: who asks for the same joins */
    struct digest asked; /* the kernel's key */
    enum stage stage;
    bool no_cache;
    struct source *source;        /* owned; NULL: nothing to compile it from */
    struct name_key *name_key;    /* owned; NULL: no name */
    uint64_t generation;          /* of the hot set, when the look-up began */
    struct fetch_ticket *tickets; /* borrowed list */
    uid_t uid;                    /* who asked first */
    struct kernel_look look;      /* its object goes to: */
    /* Filled on a lane. */
    struct object *object; /* owned reference */
    enum tier tier;
    enum kiln_code found;
    struct kiln_err err;
};

struct inflights; /* the table */

KILN_MUST_CHECK enum kiln_code inflights_create(struct inflights **ret_inflights,
                                                struct kiln_err *err);
/* None may be left. */
void inflights_destroy(struct inflights *inflights);
/* In the table or not. */
unsigned inflights_count(const struct inflights *inflights);

/* Waits nowhere yet and is in no table; NULL without memory. */
struct inflight *inflight_create(struct engine *e, const struct digest *asked,
                                 const struct fetch_ticket *asker);
/* No ticket may be left. */
void inflight_destroy(struct inflight *f);
struct inflight *inflight_of_task(struct task *t);

/* Who asks by a name is served by what packages have under it, so only the same question is
 * joined; what must be compiled is compiled once all the same (inflight_compile_or_join). */
struct digest inflight_place(const struct digest *key, const struct fetch_want *want);
/* NULL: there is none. */
struct inflight *inflight_find(struct engine *e, const struct digest *place);
/* Nobody may be there. */
void inflight_enter_table(struct inflight *f, const struct digest *place);
void inflight_leave_table(struct inflight *f);

void inflight_attach(struct inflight *f, struct fetch_ticket *t);
void inflight_detach(struct fetch_ticket *t);
