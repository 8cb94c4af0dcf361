/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The tuning databases of this engine: opened at start, tried again when the disk did not let us;
 * without a state folder what is built in, and beside that what is recorded, in memory.
 *
 * Role       without them kilnd serves kernels all the same; requests for tuning records are told
 *            why
 * Threading  the engine's thread; a later try runs on the tuning lane
 */
#include "engine/service/internal.h"

/* Fails where it would not help to wait: a network filesystem, a newer tuning.db, no memory. */
KILN_MUST_CHECK enum kiln_code tuning_open_retry_begin(struct engine *e,
                                                       const struct engine_options *options,
                                                       struct kiln_err *err);
/* Reports what opening had to say. */
void tuning_open_retry_tell(struct engine *e);
/* Limits of |options| for what is open and what will be. */
void tuning_open_retry_set_limits(struct engine *e, const struct engine_options *options);
void tuning_open_retry_tick(struct engine *e);
void tuning_open_retry_end(struct engine *e);
/* For status: {"available": ..., "trouble": ..., "notice": ...}; the caller's. */
struct json *tuning_open_retry_describe(const struct engine *e);
