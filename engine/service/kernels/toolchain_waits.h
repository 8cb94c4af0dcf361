/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Lets requests wait until the toolchains that they need are known.
 *
 * Role       calls a request's |ask| until its toolchains are known, then its |answer|
 * Ownership  a deferred request owns its struct toolchain_wait, with a copy of the request's body
 * Threading  the engine's thread
 */
#include "engine/compile/toolchain.h"

struct deferred;
struct toolchain_wait;

struct toolchain_need {
    /* Calls toolchains_resolve or toolchains_probe for each toolchain. Returns KILN_BUSY if one
     * of these calls does. |ask| is called again when the request's probes have ended. */
    enum kiln_code (*ask)(struct deferred *d);
    /* Ends the request, or lets it wait for something else. If |ask| returns an error other
     * than KILN_BUSY, or |answer| returns an error, the request is refused with the message in
     * d->err. */
    enum kiln_code (*answer)(struct deferred *d);
};
/* Calls |answer| when |ask| has returned KILN_OK. Call this function after deferred_wait, and do
 * not use |d| afterwards. The callbacks read the body from d->body. If the caller leaves,
 * |answer| is not called, and waiting probes that only this request needs are dropped. */
void toolchains_need(struct deferred *d, const struct toolchain_need *need, struct bytes body);
void toolchain_wait_destroy(struct toolchain_wait *wait);

/* Finds the toolchain with the name |forced|, or chooses one if |forced| is empty. Returns
 * KILN_BUSY if the request must wait for a probe. Call this function and the next two only from
 * |ask|. */
KILN_MUST_CHECK enum kiln_code toolchains_resolve(struct deferred *d, const struct target *target,
                                                  struct bytes forced,
                                                  const struct toolchain **ret_toolchain,
                                                  struct kiln_err *err);
/* Returns KILN_BUSY if the request must wait for a probe of |tc| for |target|. A probe that is
 * already queued for another user is shared (compile_queue_share). Returns KILN_UNAVAILABLE if no
 * probe can be started now. */
KILN_MUST_CHECK enum kiln_code toolchains_probe(struct deferred *d, const struct toolchain *tc,
                                                const struct target *target, struct kiln_err *err);
/* Returns KILN_BUSY if the request must wait for the list of installed toolchains. */
KILN_MUST_CHECK enum kiln_code toolchains_wait_for_description(struct deferred *d,
                                                               struct kiln_err *err);
