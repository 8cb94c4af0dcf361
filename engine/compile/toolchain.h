/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The toolchain table: which compilers are installed on this host, and which targets each can
 * build.
 *
 * Role       stores a worker's COMPILE_DESCRIBE answer and the results of probes; chooses the
 *            toolchain for a target.  The table neither loads nor runs a compiler
 * Ownership  the table owns its rows; returned rows are borrowed until the next
 *            toolchain_table_describe
 * Threading  one thread at a time (the daemon's loop)
 *
 * Probe results are cached by (identity, target). An upgrade changes the identity (identity.h), so
 * the old results no longer apply.
 */
#include "common/base/digest.h"
#include "common/base/err.h"
#include "common/target/target.h"

#define TOOLCHAINS_MAX 8

enum probe_state {
    PROBE_UNKNOWN,
    PROBE_WORKS,
    PROBE_FAILS,
    PROBE_NOT_NOW, /* no process was free to probe, so nothing is known about the target */
};

struct toolchain {
    char name[16];
    char version[192];
    char path[256];
    enum target_family family;
    struct digest identity;
    /* Digest by which libkiln-rtc identifies this NVRTC or hiprtc (identity_of_build_ids). Zeros
     * for toolchains that do not accept compile jobs with |is_program|. */
    struct digest library;
    /* With OpenCL, the target of the device: the toolchain can build for no other target. Otherwise
     * "". */
    char only_target[LIMIT_TARGET_TEXT];
};

struct toolchain_table;

KILN_MUST_CHECK enum kiln_code toolchain_table_create(struct toolchain_table **ret_table,
                                                      struct kiln_err *err);
void toolchain_table_destroy(struct toolchain_table *table);
KILN_DEFINE_AUTO(toolchain_table)

/* Replaces all rows with those in |json|, a worker's answer to COMPILE_DESCRIBE. The answer is
 * validated. */
KILN_MUST_CHECK enum kiln_code toolchain_table_describe(struct toolchain_table *table,
                                                        struct bytes json, struct kiln_err *err);
size_t toolchain_table_count(const struct toolchain_table *table);
const struct toolchain *toolchain_table_at(const struct toolchain_table *table, size_t index);
const struct toolchain *toolchain_table_find(const struct toolchain_table *table,
                                             struct bytes name);

const struct toolchain *toolchain_table_find_library(const struct toolchain_table *table,
                                                     const struct digest *library);

enum probe_state toolchain_probe_state(const struct toolchain_table *table,
                                       const struct toolchain *tc, const struct target *target);
const char *toolchain_language(enum target_family family);
/* Stores the result of a probe.  |detail| is the message of a failed probe, or NULL.  PROBE_UNKNOWN
 * removes the result.  If the table is full, evicts first the results of removed toolchains, then
 * failures, then successes; in each of these groups, the oldest result first. */
void toolchain_probe_learn(struct toolchain_table *table, const struct toolchain *tc,
                           const struct target *target, enum probe_state state, const char *detail);
const char *toolchain_probe_detail(const struct toolchain_table *table, const struct toolchain *tc,
                                   const struct target *target);

/*
 * Chooses a toolchain for |target|, in the order hiprtc, clang, nvrtc, opencl among the toolchains
 * of its family:
 *
 *   KILN_OK           *ret_toolchain can build for the target
 *   KILN_BUSY         *ret_toolchain must be probed first; then call again
 *   KILN_UNAVAILABLE  no toolchain is known to build for it, and no process was free to probe
 *                     one: call again later
 *   KILN_UNSUPPORTED  no toolchain can build for it; the message lists the toolchains and why each
 *                     cannot
 *
 * If |forced| is not empty, only the toolchain with that name is considered.  If there is no such
 * toolchain, returns KILN_NOT_FOUND; the message lists the installed ones.
 */
KILN_MUST_CHECK enum kiln_code toolchain_choose(const struct toolchain_table *table,
                                                const struct target *target, struct bytes forced,
                                                const struct toolchain **ret_toolchain,
                                                struct kiln_err *err);

/* `kilnctl toolchain ls` probes these targets if the user asks for all targets of a family. */
extern const char *const toolchain_known_targets[];
