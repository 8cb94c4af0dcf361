/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The sandbox of a compiler process: nothing of the host but the files that a compiler needs.
 *
 * Role       a source may say #include "/etc/shadow", and the error message would quote it; it may
 *            break the compiler and go on from there.  Each layer (engine/sandbox/layers.def) is
 *            taken where this system gives it, and looked at once it is there
 * Ownership  holds for this process and all that it starts, for ever
 * Threading  before any thread is started
 *
 *     confine_begin   namespaces, and what is mounted in them: while there are privileges for it
 *     (the caller becomes another user, gives up capabilities, enters its directory)
 *     confine_finish  Landlock, the number of processes, system calls; looks at all layers
 */
#include "common/err.h"
#include "engine/sandbox/layers.h"
#include "engine/sandbox/namespaces.h"
#include "engine/sandbox/supervisor.h"

#define CONFINE_REASON_MAX 120

struct confinement {
    struct namespace_ids outside;            /* that must not be ours */
    char reason[LAYERS][CONFINE_REASON_MAX]; /* why it could not be taken; "" */
    bool is_workers_user; /* for the caller to say: this user has no processes but workers */
    uint64_t room;        /* likewise: bytes for what it writes; 0: what its disk has */
    bool has_own_user;    /* in a user namespace of this worker's, which counts them */
    struct sandbox_report report;
};

/* |outside|: kilnd's, as words (namespaces_to_text); NULL: this process's own until now.
 * |directory| is the one that stays writable.  Returns in the process that goes on, as a child
 * where there is a process namespace; |give_up| is for the two that stay behind (supervisor.h).
 * What cannot be had is noted. */
KILN_MUST_CHECK enum kiln_code confine_begin(struct confinement *c, const char *outside,
                                             const char *directory, supervisor_give_up *give_up,
                                             void *context, struct kiln_err *err);
/* |directory| may be written to; system directories and what PATH, LD_LIBRARY_PATH,
 * OCL_ICD_VENDORS, KILN_CUDA_PATH and KILN_ROCM_PATH name may be read.  Fills |report|. */
void confine_finish(struct confinement *c, const char *directory);
