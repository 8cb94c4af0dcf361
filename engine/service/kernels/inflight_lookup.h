/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Looks an in-flight request's kernel up on a work queue: in the store, then in packages by key and
 * by name. If none has it, it is compiled, or the result is a miss.
 *
 * Threading  the engine's thread; the look-up itself is a task on WORK_QUEUE_READ
 */
#include "engine/service/kernels/inflight.h"

void inflight_look_up(struct inflight *f);
