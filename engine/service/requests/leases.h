/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Requests that wait for a tuning lease (engine/tuning/lease.h).
 *
 * Threading  the engine's thread
 */
#include "engine/service/internal.h"

/* Other callers get the leases of |caller|, who has left. */
void leases_leave(struct engine *e, const struct caller *caller);
/* Requests whose waiting time is over get the current state of the lease. */
void leases_tick(struct engine *e);
void leases_drain(struct engine *e);
