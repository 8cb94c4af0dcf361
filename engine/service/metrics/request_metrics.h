/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Counts every request once, when it ends, with its result.
 *
 * Role       a request that is not deferred ends when its handler returns. A deferred request ends
 *            when its struct deferred is removed from its caller
 * Threading  the engine's thread
 *
 * Every request runs these functions, so they are inline.
 */
#include "engine/service/internal.h"

#include <assert.h>

static inline void request_count(struct engine_metrics *f, unsigned type, unsigned code)
{
    f->requests[type][code]++;
    if (code == KILN_BUSY || code == KILN_FULL)
        f->rejections++;
}

static inline void request_begins(struct engine_metrics *f, const struct caller *caller,
                                  uint64_t id, unsigned type)
{
    f->ended.caller = NULL;
    f->handled.caller = caller;
    f->handled.id = id;
    f->handled.type = (uint16_t)type;
    f->handled.code = KILN_OK;
    f->handled.waits = false;
}

static inline void request_returns(struct engine_metrics *f)
{
    if (!f->handled.waits)
        request_count(f, f->handled.type, f->handled.code);
    f->handled.caller = NULL;
}

/* Call this function within the handler of a request that is deferred. */
static inline void request_waits(struct engine_metrics *f, struct deferred *w)
{
    assert(f->handled.caller == w->caller && f->handled.id == w->request_id);
    w->type = f->handled.type;
    f->handled.waits = true;
    f->in_flight++;
}

static inline void request_waits_no_more(struct engine_metrics *f, const struct deferred *w)
{
    f->in_flight--;
    request_count(f, w->type, w->code);
    f->ended.caller = w->caller;
    f->ended.id = w->request_id;
    f->ended.type = w->type;
    f->ended.code = w->code;
}

/* Call this function when an error is sent, even after the deferred request has ended. */
void request_refused(struct engine_metrics *f, const struct caller *caller, uint64_t id,
                     enum kiln_code code);
