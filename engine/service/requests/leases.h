/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Requests that wait for a tuning lease (engine/tuning/lease.h), and what happens to leases when a
 * caller leaves.
 *
 * Threading  the engine's thread
 */
#include "engine/service/internal.h"

/* Call it when |caller| has left, so that other callers get its leases. */
void leases_leave(struct engine *e, const struct caller *caller);
/* Answers the requests whose waiting time is over, with the current state of the lease. */
void leases_tick(struct engine *e);
/* Ends the waiting requests because kilnd is stopping. */
void leases_drain(struct engine *e);
