/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Who waits for a lease, and what becomes of leases when a caller leaves.
 *
 * Threading  the engine's thread
 */
#include "engine/service/internal.h"

/* |caller| is gone: what it held is given to others. */
void leases_leave(struct engine *e, const struct caller *caller);
/* Whose time is up is told how things stand. */
void leases_tick(struct engine *e);
/* Who waits is put off. */
void leases_drain(struct engine *e);
