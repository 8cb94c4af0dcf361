/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which toolchain builds for a target, found out by asking a compiler process.
 *
 * Role       describes what is here, probes targets that are new, and lets requests wait for it
 * Ownership  the engine's; a waiting request owns a copy of its body
 * Threading  the engine's thread
 */
#include "engine/compile/toolchain.h"
#include "engine/service/service.h"

struct toolchain_probes;

KILN_MUST_CHECK enum kiln_code toolchains_create(struct toolchain_probes **ret_probes,
                                                 struct kiln_err *err);
/* Only when toolchains_settled. */
void toolchains_destroy(struct toolchain_probes *probes);

/* Which toolchain for |target|?  KILN_BUSY: not known yet, a probe is under way; the handler
 * returns what toolchains_wait says. */
KILN_MUST_CHECK enum kiln_code toolchains_resolve(struct engine *e, uid_t uid,
                                                  const struct target *target, struct bytes forced,
                                                  const struct toolchain **ret_toolchain,
                                                  struct kiln_err *err);
/* Keeps a copy of the request and runs its handler again when all has ended that it asked for.  If
 * the caller leaves meanwhile, what only this request waits for is taken out of the queue. */
KILN_MUST_CHECK enum kiln_code toolchains_wait(struct engine *e, struct caller *caller,
                                               const struct frame_header *header, struct bytes body,
                                               struct kiln_err *err);
/* The request at hand has failed: takes out of the queue what only it asked for. */
void toolchains_drop_asked(struct engine *e);
/* The request at hand does not wait for what it asked for, which goes on all the same. */
void toolchains_keep_asked(struct engine *e);

/* Asks a compiler what is here, unless that is under way. */
void toolchains_describe(struct engine *e);
/* With the next request that needs a toolchain. */
void toolchains_describe_soon(struct engine *e);
/* Whether a compiler has said what is here; |ret_failure|: why the last try failed, or "". */
bool toolchains_described(const struct engine *e, const char **ret_failure);
/* Failures that may have passed meanwhile are forgotten, and tried again. */
void toolchains_forget_failures(struct engine *e);
/* Starts the probe that answers |target| for |tc|, queued as |uid|'s; one that is under way gets
 * the best place of those who ask.  KILN_UNAVAILABLE when it cannot be started now. */
KILN_MUST_CHECK enum kiln_code toolchains_probe(struct engine *e, uid_t uid,
                                                const struct toolchain *tc,
                                                const struct target *target, struct kiln_err *err);
/* Whether |tc| is known to build for |target|: the probe said so. */
bool toolchains_tried(const struct engine *e, const struct toolchain *tc, struct bytes target);
bool toolchains_settled(const struct engine *e); /* nothing under way */
