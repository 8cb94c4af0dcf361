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

/* Makes the ticket wait for a copy of |object|, the answer to |key|. If |object| is in the hot
 * set, the copy is added to the set. Fetches of the same user share the copy. */
KILN_MUST_CHECK enum kiln_code inflight_copy(struct engine *e, const struct digest *key,
                                             struct object *object, struct fetch_ticket *ticket,
                                             struct kiln_err *err);
