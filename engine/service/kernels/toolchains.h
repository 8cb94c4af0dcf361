/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which toolchain builds for a target, determined by asking a compiler process.
 *
 * Role       describes the installed toolchains, probes new targets, and lets requests wait for
 *            that
 * Ownership  the engine's; a waiting request owns a copy of its body
 * Threading  the engine's thread
 */
#include "engine/compile/toolchain.h"
#include "engine/service/service.h"

struct toolchain_probes;

KILN_MUST_CHECK enum kiln_code toolchains_create(struct toolchain_probes **ret_probes,
                                                 struct kiln_err *err);
/* Call it only when toolchains_settled() is true. */
void toolchains_destroy(struct toolchain_probes *probes);

struct toolchain_question { /* which toolchain builds for |target|; borrowed */
    uid_t uid;              /* the user who asks */
    const struct target *target;
    struct bytes forced; /* the toolchain that the user names; empty: kiln chooses */
};
/* KILN_BUSY: the answer is not known yet, and a probe is under way. The handler must then return
 * the result of toolchains_wait. */
KILN_MUST_CHECK enum kiln_code toolchains_resolve(struct engine *e,
                                                  const struct toolchain_question *question,
                                                  const struct toolchain **ret_toolchain,
                                                  struct kiln_err *err);
/* Keeps a copy of the request, and runs its handler again when all probes that the handler asked
 * for have ended. If the caller leaves, probes that only this request waits for are removed from
 * the queue. */
KILN_MUST_CHECK enum kiln_code toolchains_wait(struct engine *e, struct caller *caller,
                                               const struct frame_header *header, struct bytes body,
                                               struct kiln_err *err);
/* The current request has failed: removes from the queue the probes that only it asked for. */
void toolchains_drop_asked(struct engine *e);
/* The current request does not wait for the probes that it asked for. They continue
 * nevertheless. */
void toolchains_keep_asked(struct engine *e);

/* Asks a compiler process which toolchains are installed, unless that is under way. */
void toolchains_describe(struct engine *e);
/* Makes the next request that needs a toolchain ask again which toolchains are installed. */
void toolchains_describe_soon(struct engine *e);
/* Whether a compiler process has listed the toolchains. |ret_failure| says why the last try failed,
 * or is "". */
bool toolchains_described(const struct engine *e, const char **ret_failure);
/* Forgets failures that may be temporary, so that they are tried again. */
void toolchains_forget_failures(struct engine *e);
/* Starts the probe of |target| for |tc|, queued as |uid|'s. If the probe is queued already, it
 * moves to |uid|'s queue if it is served sooner there. KILN_UNAVAILABLE: it cannot be started
 * now. */
KILN_MUST_CHECK enum kiln_code toolchains_probe(struct engine *e, uid_t uid,
                                                const struct toolchain *tc,
                                                const struct target *target, struct kiln_err *err);
/* Whether a probe found that |tc| builds for |target|. */
bool toolchains_tried(const struct engine *e, const struct toolchain *tc, struct bytes target);
bool toolchains_settled(const struct engine *e); /* no probe is under way */
