/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One kernel's way: hot set, store, packages, compilers; and single flight over all of it.
 *
 * Role       however many ask for a key, it is looked up once and compiled once
 * Ownership  a ticket is the asker's and stays valid until ready was called or fetch_cancel
 * Threading  the engine's thread
 *
 *   LOOKING --found--> (delivered)
 *      |--miss, a source is known--> QUEUED --object--> SEALING --> (delivered, stored)
 *      `--miss, none--> (NOT_FOUND)   `--failure--> (delivered, remembered)
 */
#include "engine/service/kernels/name_key.h"

struct fetch_result {
    struct kiln_err err; /* code KILN_OK and the rest filled, or why not */
    enum tier tier;
    struct digest key;
    struct object *object;   /* borrowed for the call; NULL on failure */
    const char *log;         /* borrowed; NULL when there is none */
    enum miss_reason reason; /* where no tier had it */
};

struct fetch_ticket {
    uid_t uid;
    enum priority priority;
    uint64_t batch; /* its number: what one batch asks for twice is booked once; 0: of none */
    /* Never from within the call that took the ticket. */
    void (*ready)(struct fetch_ticket *ticket, const struct fetch_result *result);
    struct inflight *inflight; /* borrowed while waiting */
    uint64_t began_ns;         /* 0: not timed */
    struct fetch_ticket *next, *previous;
};

/* What is wanted, all borrowed for the call; what must wait is copied. */
struct fetch_want {
    struct digest key;              /* when there is no job; else worked out */
    const struct compile_job *job;  /* NULL: nothing to compile it from.  Options are canonical,
                                       headers checked */
    const struct toolchain *tc;     /* with a job */
    const struct kernel_name *name; /* NULL: packages are asked by key alone */
    const struct digest
        *shared_key; /* with a name: where everyone's imported kernels have it; NULL */
    bool no_cache;   /* with a job: nothing stored is used, nothing is stored */
};

/* True when *ret_result holds the answer already, false when ready will be called.  The result's
 * object is borrowed until the next call into the engine. */
bool fetch_begin(struct engine *e, const struct fetch_want *want, struct fetch_ticket *ticket,
                 struct fetch_result *ret_result);
/* fetch_begin in two steps, for a ticket that is allocated only if it must wait.  The first: the
 * answer from memory.  When it is false, *ret_key and the ticket, which may be a copy by then, go
 * to the second. */
bool fetch_at_hand(struct engine *e, const struct fetch_want *want, struct fetch_ticket *ticket,
                   struct digest *ret_key, struct fetch_result *ret_result);
bool fetch_start(struct engine *e, const struct fetch_want *want, const struct digest *key,
                 struct fetch_ticket *ticket, struct fetch_result *ret_result);
/* Forgets the ticket; work that nobody waits for any more is dropped if it has not begun. */
void fetch_cancel(struct engine *e, struct fetch_ticket *ticket);
