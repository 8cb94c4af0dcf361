/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Requests that need toolchains, and wait until these are known.
 *
 * Role       calls a request's |ask| until its toolchains are known, then its |answer|
 * Ownership  a deferred request owns its struct toolchain_wait, with a copy of the request's body
 * Threading  the engine's thread
 */
#include "engine/compile/toolchain.h"

struct deferred;
struct toolchain_wait; /* a deferred request's */

/* Which toolchains a deferred request needs, and how it is answered once they are known. */
struct toolchain_need {
    /* Calls toolchains_resolve or toolchains_probe for each of them. KILN_BUSY if one of these
     * calls returned KILN_BUSY: |ask| is called again when the request's probes have ended. */
    enum kiln_code (*ask)(struct deferred *d);
    /* Called when |ask| has returned KILN_OK. Ends the request, or lets it wait for something else.
     * Any other result of |ask| or |answer| refuses the request, with the message in d->err. */
    enum kiln_code (*answer)(struct deferred *d);
};
/* Calls |answer|: at once if |ask| needs no probe, else after its probes. Call it after
 * deferred_wait, and do not use |d| afterwards. The callbacks find |body| in d->body; it is copied
 * if the request waits. If the caller leaves, probes that only this request waits for are removed
 * from the queue, and |answer| is not called. */
void toolchains_need(struct deferred *d, const struct toolchain_need *need, struct bytes body);
/* Ends the wait, and removes from the queue the probes that no other request waits for. Accepts
 * NULL. */
void toolchain_wait_destroy(struct toolchain_wait *wait);

/* Which toolchain builds for |target|. |forced|: the toolchain that the user names; empty: kiln
 * chooses. KILN_BUSY: not known yet; the request waits for a probe. Call it only from |ask|, like
 * the next two. */
KILN_MUST_CHECK enum kiln_code toolchains_resolve(struct deferred *d, const struct target *target,
                                                  struct bytes forced,
                                                  const struct toolchain **ret_toolchain,
                                                  struct kiln_err *err);
/* Lets the request wait for the probe of |target| with |tc| (KILN_BUSY). The probe is queued as the
 * user's; if it is queued already, it moves to this user's queue if it is served sooner there.
 * KILN_UNAVAILABLE: it cannot be started now. */
KILN_MUST_CHECK enum kiln_code toolchains_probe(struct deferred *d, const struct toolchain *tc,
                                                const struct target *target, struct kiln_err *err);
/* Whether the installed toolchains are known. KILN_BUSY: the request waits for it. */
KILN_MUST_CHECK enum kiln_code toolchains_wait_for_description(struct deferred *d,
                                                               struct kiln_err *err);
