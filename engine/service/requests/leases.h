/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Requests that wait for a lease, and what happens to leases when a caller leaves.
 *
 * Threading  the engine's thread
 */
#include "engine/service/internal.h"

/* Call it when |caller| has left: other callers get its leases. */
void leases_leave(struct engine *e, const struct caller *caller);
/* Answers requests that have waited for their whole time with the current state of the lease. */
void leases_tick(struct engine *e);
/* Ends the waiting requests because kilnd is stopping. */
void leases_drain(struct engine *e);
