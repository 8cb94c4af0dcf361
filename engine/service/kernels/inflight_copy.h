/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * In-flight requests that copy an object which is in memory, but was given to another user.
 *
 * Role       a descriptor is sent to the processes of one user only (engine/store/held_objects.h)
 * Threading  the engine's thread
 */
#include "engine/service/kernels/inflight.h"

/* Makes the ticket wait for a copy of |object|, the answer to |key|.  If |object| is hot, so is the
 * copy then, under the same key.  Fetches of the same user share it. */
KILN_MUST_CHECK enum kiln_code inflight_copy(struct engine *e, const struct digest *key,
                                             struct object *object, struct fetch_ticket *ticket,
                                             struct kiln_err *err);
