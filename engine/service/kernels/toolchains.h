/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which toolchain builds for a target, determined by asking a compiler process.
 *
 * Role       describes the installed toolchains, and probes new targets; toolchain_waits.h lets
 *            requests wait for the results
 * Ownership  the engine's; a watch is embedded in its owner
 * Threading  the engine's thread
 */
#include "common/base/list.h"
#include "engine/compile/toolchain.h"
#include "engine/service/service.h"

struct probe; /* a job: the probe of a target, or the describe job (toolchains_describe) */
struct toolchain_probes;

KILN_MUST_CHECK enum kiln_code toolchains_create(struct toolchain_probes **ret_probes,
                                                 struct kiln_err *err);
/* Call it only when toolchains_settled() is true. */
void toolchains_destroy(struct toolchain_probes *probes);

/* Returns in |ret_toolchain| the toolchain that builds for |target|. |forced| is the toolchain that
 * the user names; if it is empty, kiln chooses. Returns KILN_BUSY if the toolchain is not known
 * yet, but starts no probe; toolchains_resolve does. */
KILN_MUST_CHECK enum kiln_code toolchains_find(const struct engine *e, const struct target *target,
                                               struct bytes forced,
                                               const struct toolchain **ret_toolchain,
                                               struct kiln_err *err);
/* Lists the installed toolchains again if that is due. Drops old failures that may have been
 * temporary, so that their probes are tried again. Call it when a request begins, before
 * toolchains_find. */
void toolchains_refresh(struct engine *e);

/* Asks a compiler process which toolchains are installed. Does nothing if one is already being
 * asked. */
void toolchains_describe(struct engine *e);
/* Makes the next request that needs a toolchain call toolchains_describe. */
void toolchains_describe_soon(struct engine *e);
/* Returns whether a compiler process has listed the toolchains. |ret_failure| says why the last try
 * failed; it is "" if there was no failure. */
bool toolchains_described(const struct engine *e, const char **ret_failure);
/* Returns whether a probe found that |tc| builds for |target|. */
bool toolchains_tried(const struct engine *e, const struct toolchain *tc, struct bytes target);
/* Returns true if no probe and no describe job is waiting or running. */
bool toolchains_settled(const struct engine *e);

/* ---- for toolchain_waits.c ---- */

/* Notifies the owner of the watch once, when the probe ends. */
struct probe_watch {
    struct probe *probe; /* set by probe_watch_start */
    struct list_link link;
    void (*ended)(struct probe_watch *watch); /* called after the watch was stopped; may free the
                                               * watch */
};
void probe_watch_start(struct probe_watch *watch, struct probe *p);
/* Stops the watch, and drops the probe as probe_drop_unless_watched does. Call it only before the
 * probe has ended. */
void probe_watch_stop(struct probe_watch *watch);
/* Drops the probe if nobody watches it and no compiler runs it yet. A running probe continues, and
 * its result is stored. */
void probe_drop_unless_watched(struct probe *p);

/* Returns the probe of |target| with |tc|: one that already waits or runs, or a new one. Queues a
 * new probe for this user; for a probe that waits, calls compile_queue_share. Returns NULL and
 * fills |err| if no probe can be started now. */
KILN_MUST_CHECK struct probe *toolchains_probe_start(struct engine *e, uid_t uid,
                                                     const struct toolchain *tc,
                                                     const struct target *target,
                                                     struct kiln_err *err);
/* Returns KILN_OK if the installed toolchains are known, and KILN_BUSY if the describe job
 * |ret_describe| is still listing them. */
KILN_MUST_CHECK enum kiln_code toolchains_check_description(const struct engine *e,
                                                            struct probe **ret_describe,
                                                            struct kiln_err *err);
