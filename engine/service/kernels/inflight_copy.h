/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * In-flight requests that copy an object which is in memory, but was given to another user.
 *
 * Role       gives another user a copy, because a descriptor is sent to the processes of one user
 *            only (engine/store/held_objects.h)
 * Threading  the engine's thread
 */
#include "engine/service/kernels/inflight.h"

/* Copies |object|, the answer to |key|, for the ticket's user. If |object| is hot, the copy becomes
 * hot, too. Fetches of one user share a copy. */
KILN_MUST_CHECK enum kiln_code inflight_copy(struct engine *e, const struct digest *key,
                                             struct object *object, struct fetch_ticket *ticket,
                                             struct kiln_err *err);
