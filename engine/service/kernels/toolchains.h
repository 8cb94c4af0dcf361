/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds out which toolchain builds for a target, by asking a compiler process.
 *
 * Role       describes the installed toolchains, and probes new targets; toolchain_waits.h lets
 *            requests wait for the results
 * Ownership  the engine owns the probes; a watch is embedded in its owner
 * Threading  the engine's thread
 */
#include "common/base/list.h"
#include "engine/compile/toolchain.h"
#include "engine/fleet/fleet_names.h"
#include "engine/service/service.h"

struct probe; /* the probe of a target, or the describe job (toolchains_describe) */
struct toolchain_probes;

KILN_MUST_CHECK enum kiln_code toolchains_create(struct toolchain_probes **ret_probes,
                                                 struct kiln_err *err);
void toolchains_destroy(struct toolchain_probes *probes);

/* Finds the toolchain with the name |forced|, or chooses one if |forced| is empty. Returns
 * KILN_BUSY if the answer needs a probe or the describe job; starts neither of them. */
KILN_MUST_CHECK enum kiln_code toolchains_find(const struct engine *e, const struct target *target,
                                               struct bytes forced,
                                               const struct toolchain **ret_toolchain,
                                               struct kiln_err *err);
/* Drops old failures that may have been temporary. Call this function before toolchains_find. */
void toolchains_refresh(struct engine *e);

/* Starts a compiler process that lists the installed toolchains, unless such a process already
 * runs. */
void toolchains_describe(struct engine *e);
/* Makes the next request that needs a toolchain call toolchains_describe. */
void toolchains_describe_soon(struct engine *e);
/* Returns whether the installed toolchains are known. *ret_failure says why the last try to list
 * them failed, or is "". */
bool toolchains_described(const struct engine *e, const char **ret_failure);
/* Call this function when another host has compiled kernels for |target| with this toolchain, so
 * the toolchain works. Requests no longer wait for its probe; the probe itself still runs. */
void toolchains_note_works(struct engine *e, const struct fleet_shard *shard);
bool toolchains_tried(const struct engine *e, const struct toolchain *tc, struct bytes target);
/* Returns true if no probe and no describe job waits or runs. */
bool toolchains_settled(const struct engine *e);

/* A wait for a probe. The waiting struct embeds it. |ended| is called once, when the probe ends. */
struct probe_watch {
    struct probe *probe;
    struct list_link link;
    void (*ended)(struct probe_watch *watch); /* may free the watch */
};
void probe_watch_start(struct probe_watch *watch, struct probe *p);
/* Ends the watch, then calls probe_drop_unless_watched. The probe must not have ended. */
void probe_watch_stop(struct probe_watch *watch);
/* Drops a probe that waits for a compiler, if nobody watches it. A running probe continues. */
void probe_drop_unless_watched(struct probe *p);

/* Returns a probe that waits or runs, or a new one. A new probe is queued for this user, and a
 * waiting one is shared (compile_queue_share). Returns NULL and fills |err| if no probe can be
 * started now. */
KILN_MUST_CHECK struct probe *toolchains_probe_start(struct engine *e, uid_t uid,
                                                     const struct toolchain *tc,
                                                     const struct target *target,
                                                     struct kiln_err *err);
/* If the describe job is still listing the toolchains, sets *ret_describe to this job and returns
 * KILN_BUSY. Returns KILN_UNAVAILABLE if the list could not be made. */
KILN_MUST_CHECK enum kiln_code toolchains_check_description(const struct engine *e,
                                                            struct probe **ret_describe,
                                                            struct kiln_err *err);
