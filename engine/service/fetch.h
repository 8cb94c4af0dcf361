/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One kernel's way: hot set, store, compilers; and single flight over all of it.
 *
 * Role       however many ask for a key, it is looked up once and compiled once
 * Ownership  a ticket is the asker's and stays valid until ready was called or fetch_cancel
 * Threading  the engine's thread
 *
 *   LOOKING --found--> (delivered)
 *      |--miss, a source is known--> QUEUED --object--> SEALING --> (delivered, stored)
 *      `--miss, none--> (NOT_FOUND)   `--failure--> (delivered, remembered)
 */
#include "engine/service/internal.h"

struct fetch_result {
    struct kiln_err err; /* code KILN_OK and the rest filled, or why not */
    enum tier tier;
    struct digest key;
    struct object *object; /* borrowed for the call; NULL on failure */
    const char *log;       /* borrowed; NULL when there is none */
};

struct fetch_ticket {
    uid_t uid;
    enum priority priority;
    /* Never from within the call that took the ticket. */
    void (*ready)(struct fetch_ticket *ticket, const struct fetch_result *result);
    struct flight *flight; /* borrowed while waiting */
    struct fetch_ticket *next, *previous;
};

/* Both: true when *ret_result holds the answer already, false when ready will be called.  The
 * result's object is borrowed until the next call into the engine. */
bool fetch_by_key(struct engine *e, const struct digest *key, struct fetch_ticket *ticket,
                  struct fetch_result *ret_result);
/* |job| is copied if it must wait.  Options are canonical, headers checked. */
bool fetch_with_source(struct engine *e, const struct compile_job *job, const struct toolchain *tc,
                       struct fetch_ticket *ticket, struct fetch_result *ret_result);
/* Forgets the ticket; work that nobody waits for any more is dropped if it has not begun. */
void fetch_cancel(struct engine *e, struct fetch_ticket *ticket);
