/* SPDX-License-Identifier: MIT */
#pragma once

/* A flight's look-up on a lane: the store, then packages by key and by name; what none has is
 * compiled, or a miss. */
#include "engine/service/kernels/inflight.h"

void inflight_look(struct inflight *f);
