/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Writes a measured record to tuning.db.
 *
 * Role       for the request tuning_put and for the end of a lease: waits in the queue, writes the
 *            record, then answers
 * Ownership  a put owns a copy of its rows and frees itself after the answer
 * Threading  the engine's thread
 */
#include "engine/service/tuning/tuning_queue.h"
#include "engine/tuning/record.h"

struct tuning_put;

struct tuning_put_kind {
    bool stays; /* the put continues without its caller, because other clients wait for it, too */
    /* Called before the answer, even if the put failed; may be NULL. */
    void (*ended)(struct tuning_put *put);
    /* Called after a successful write, unless the caller has left. */
    void (*reply)(struct tuning_put *put, struct caller *caller);
};

struct tuning_put {
    struct deferred base;
    struct tuning_change change;
    const struct tuning_put_kind *kind;
    struct record *record;
    struct tuning_put_token token; /* valid if |is_once| */
    bool is_once;
    uint64_t lease; /* the lease that the put ends; 0: none */
};

struct tuning_putting { /* members are borrowed */
    const struct tuning_put_kind *kind;
    /* Rows of a find record are in FindDb's new dialect. They are converted if the stored record is
     * in the old one. */
    const struct tuning_row *rows;
    size_t count;
    const struct tuning_put_token *token; /* NULL: the client will not repeat the request */
    uint64_t lease;
};
/* Begins a put. The request may already be answered when this function returns. */
KILN_MUST_CHECK enum kiln_code tuning_put_begin(struct engine *e, struct caller *caller,
                                                uint64_t request_id,
                                                const struct tuning_putting *what,
                                                struct kiln_err *err);
