/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The sandbox of a compiler process: it sees only the host files that a compiler needs.
 *
 * Role       A source may say #include "/etc/shadow", and the error message would quote it.  It may
 *            also exploit a compiler bug.  Each layer (engine/sandbox/layers.def) is enabled where
 *            the system supports it, and verified afterwards
 * Ownership  holds for this process and all that it starts, for ever
 * Threading  call before any thread is started
 *
 *     confine_begin   namespaces and their mounts, while the process still has privileges for them
 *     (the caller switches user, drops capabilities, enters its directory)
 *     confine_finish  Landlock, the limit of processes, system calls; then verifies all layers
 */
#include "common/err.h"
#include "engine/sandbox/layers.h"
#include "engine/sandbox/namespaces.h"
#include "engine/sandbox/supervisor.h"

#define CONFINE_REASON_MAX 120

struct confinement {
    struct namespace_ids outside;            /* namespaces that this process must not share */
    char reason[LAYERS][CONFINE_REASON_MAX]; /* why a layer could not be enabled; "" */
    bool is_workers_user;                    /* set by the caller: only workers run as this user */
    uint64_t room;     /* set by the caller: bytes it may write; 0: limited only by the disk */
    bool has_own_user; /* in a private user namespace, which counts processes */
    struct sandbox_report report;
};

/* |outside|: kilnd's namespaces (namespaces_to_text);  NULL: those of this process so far.  Only
 * |directory| stays writable.  With a process namespace it returns in a child;  |give_up| runs
 * in the two processes that stay behind (supervisor.h).  Layers that cannot be enabled are
 * recorded. */
KILN_MUST_CHECK enum kiln_code confine_begin(struct confinement *c, const char *outside,
                                             const char *directory, supervisor_give_up *give_up,
                                             void *context, struct kiln_err *err);
/* Grants write access to |directory|, and read access to system directories and to what PATH,
 * LD_LIBRARY_PATH, OCL_ICD_VENDORS, KILN_CUDA_PATH and KILN_ROCM_PATH name.  Fills |report|. */
void confine_finish(struct confinement *c, const char *directory);
