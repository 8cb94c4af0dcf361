/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a kernel is made of, copied: a job that outlives the request that brought it.
 *
 * Ownership  charged to its user's budget from copy to destroy
 * Threading  the engine's thread; read-only elsewhere
 */
#include "engine/compile/toolchain.h"
#include "engine/service/internal.h"

struct source {
    struct compile_job job; /* its views point into storage; each text is terminated as well */
    struct engine *engine;
    uid_t uid;
    size_t size; /* of storage, bytes */
    char storage[];
};

/* A job for a target on which |tc| was not tried gets COMPILE_OF_CLIENT as its origin, whoever made
 * it. KILN_BUSY beyond the user's budget, KILN_NO_MEMORY. */
KILN_MUST_CHECK enum kiln_code source_copy(struct engine *e, uid_t uid,
                                           const struct compile_job *job,
                                           const struct toolchain *tc, struct source **ret_source,
                                           struct kiln_err *err);
void source_destroy(struct source *source);
