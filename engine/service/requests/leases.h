/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Requests that wait for a tuning lease (engine/tuning/lease.h).
 *
 * Threading  the engine's thread
 */
#include "engine/service/internal.h"

/* Gives the leases of |caller|, who has left, to other callers. */
void leases_leave(struct engine *e, const struct caller *caller);
/* Ends the wait of requests whose waiting time is over: answers them with the current state of the
 * lease. */
void leases_tick(struct engine *e);
void leases_drain(struct engine *e);
