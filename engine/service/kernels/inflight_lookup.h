/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Looks up an in-flight request's kernel on a work queue: in the store, then in packages by key and
 * by name. If the kernel is not found, it is compiled if there is a source.
 *
 * Threading  the engine's thread; the look-up itself is a task on WORK_QUEUE_READ
 */
#include "engine/service/kernels/inflight.h"

void inflight_look_up(struct inflight *f);
