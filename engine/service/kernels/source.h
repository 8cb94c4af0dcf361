/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A copy of a compile job, which outlives the request that brought the job.
 *
 * Ownership  the copy is charged to its user's budget until it is destroyed
 * Threading  the engine's thread; read-only elsewhere
 */
#include "engine/compile/toolchain.h"
#include "engine/service/internal.h"

struct source {
    struct compile_job job; /* views point into |storage|, where each text ends with a NUL */
    struct engine *engine;
    uid_t uid;
    size_t size;
    char storage[];
};

struct fetch_options;

/* The copy has the job's origin if a probe has shown that the toolchain builds for the job's
 * target. Otherwise, the copy's origin is COMPILE_OF_CLIENT (not trusted), because a client may
 * have chosen the target. Returns KILN_BUSY if the copy exceeds the user's budget, or
 * KILN_NO_MEMORY. */
KILN_MUST_CHECK enum kiln_code source_copy(struct engine *e, uid_t uid,
                                           const struct fetch_options *options,
                                           struct source **ret_source, struct kiln_err *err);
void source_destroy(struct source *source);
