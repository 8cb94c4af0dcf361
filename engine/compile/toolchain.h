/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The toolchain table: which compilers are on this host, and which targets each can build.
 *
 * Role       filled from a worker's COMPILE_DESCRIBE answer and from probes; chooses the
 *            toolchain for a target.  Nothing here loads or runs a compiler.
 * Ownership  the table owns its rows; rows handed out are borrowed until the next
 *            toolchain_table_describe
 * Threading  one thread at a time (the daemon's loop)
 *
 * A toolchain's identity is the SHA-256 over the build ids of every library and program that
 * decides its output, so that an upgrade never serves a stale object.  What a probe found is
 * remembered by (identity, target).
 */
#include "common/digest.h"
#include "common/err.h"
#include "common/target.h"

#define TOOLCHAINS_MAX 8

enum probe_state {
    PROBE_UNKNOWN,
    PROBE_WORKS,
    PROBE_FAILS,
    PROBE_NOT_NOW, /* there was no process for it, which says nothing of the target */
};

struct toolchain {
    char name[16];     /* "hiprtc", "clang", "nvrtc", "opencl" */
    char version[192]; /* for people */
    char path[256];    /* the library or program it was found in; for people */
    enum target_family family;
    struct digest identity;
    /* Targets known without a probe (OpenCL: the one device's); empty otherwise. */
    char only_target[LIMIT_TARGET_TEXT];
};

struct toolchain_table;

KILN_MUST_CHECK enum kiln_code toolchain_table_create(struct toolchain_table **ret_table,
                                                      struct kiln_err *err);
void toolchain_table_destroy(struct toolchain_table *table);
KILN_DEFINE_AUTO(toolchain_table)

/* Replaces the rows by those of a DESCRIBE answer (JSON, from a worker: checked). */
KILN_MUST_CHECK enum kiln_code toolchain_table_describe(struct toolchain_table *table,
                                                        struct bytes json, struct kiln_err *err);
size_t toolchain_table_count(const struct toolchain_table *table);
const struct toolchain *toolchain_table_at(const struct toolchain_table *table, size_t index);
/* NULL when there is none of that name. */
const struct toolchain *toolchain_table_find(const struct toolchain_table *table,
                                             struct bytes name);

enum probe_state toolchain_probe_state(const struct toolchain_table *table,
                                       const struct toolchain *tc, const struct target *target);
/* |detail| is the failing probe's sentence, kept for people; NULL when it works.  PROBE_UNKNOWN
 * forgets.  The table has an end: failures give way first, the oldest before others. */
void toolchain_probe_learn(struct toolchain_table *table, const struct toolchain *tc,
                           const struct target *target, enum probe_state state, const char *detail);
/* The sentence of a probe that failed or could not be made, or "". */
const char *toolchain_probe_detail(const struct toolchain_table *table, const struct toolchain *tc,
                                   const struct target *target);

/*
 * Chooses for |target|, in the order hiprtc, clang, nvrtc, opencl among those of its family:
 *   KILN_OK           *ret_toolchain can build it
 *   KILN_BUSY         *ret_toolchain must be probed first; then ask again
 *   KILN_UNAVAILABLE  none is known to, and there was no process to try one of them: ask again
 *   KILN_UNSUPPORTED  none can; the sentence says what is here and why each cannot
 * With |forced| not empty only that one is considered, and it is KILN_OK also where its probe
 * failed: the caller wants to see it try.  An unknown name is KILN_NOT_FOUND, naming those that are
 * here.
 */
KILN_MUST_CHECK enum kiln_code toolchain_choose(const struct toolchain_table *table,
                                                const struct target *target, struct bytes forced,
                                                const struct toolchain **ret_toolchain,
                                                struct kiln_err *err);

/* The targets that `kilnctl toolchain ls` probes when asked for every target a family has. */
extern const char *const toolchain_known_targets[]; /* NULL-terminated */
