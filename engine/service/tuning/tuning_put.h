/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A measured record on its way into tuning.db.
 *
 * Role       the request tuning_put, and the end of a lease: a slot of the queue, then an answer
 * Ownership  a put owns a copy of its rows and frees itself once it was answered
 * Threading  the engine's thread
 */
#include "engine/service/tuning/tuning_queue.h"
#include "engine/tuning/record.h"

struct tuning_put;

struct tuning_put_kind {
    bool stays; /* goes on when its caller has left: it is the work of several */
    /* However it ended, before the answer; may be NULL. */
    void (*ended)(struct tuning_put *put);
    /* It was recorded, and its caller is still there. */
    void (*reply)(struct tuning_put *put, struct caller *caller);
};

struct tuning_put {
    struct deferred base; /* first member */
    struct tuning_change change;
    const struct tuning_put_kind *kind;
    struct record *record;         /* owned */
    struct tuning_put_token token; /* where |is_once| */
    bool is_once;
    uint64_t charged; /* bytes, of the budget of what waits */
    uint64_t lease;   /* that it ends; 0: none */
};

struct tuning_putting { /* what is put; borrowed */
    const struct tuning_put_kind *kind;
    /* Of one place; those of find in the new dialect, which become the old one where the record is
     * in that. */
    const struct tuning_row *rows;
    size_t count;
    const struct tuning_put_token *token; /* NULL: it does not come again */
    uint64_t lease;
};
/* It may have been answered when this returns. */
KILN_MUST_CHECK enum kiln_code tuning_put_begin(struct engine *e, struct caller *caller,
                                                uint64_t request_id,
                                                const struct tuning_putting *what,
                                                struct kiln_err *err);
