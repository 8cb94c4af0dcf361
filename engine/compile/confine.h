/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The sandbox of a compiler process, which sees only the host files that a compiler needs.
 *
 * Role       protects the host's files from the sources of GPU kernels.  A source may say #include
 *            "/etc/shadow", and the error message would quote that file.  A source may also exploit
 *            a compiler bug.  Each layer (engine/sandbox/layers.def) is enabled where the system
 *            supports it, and verified afterwards
 * Ownership  permanent for this process and all processes that it starts
 * Threading  call before any thread is started
 *
 * The needs of the layers determine the order of the steps:
 *
 *     confine_begin   namespaces, mounts      need CAP_SYS_ADMIN, or a user namespace
 *     the caller      switches user, drops capabilities, enters its directory
 *     confine_finish  no_new_privs, Landlock  need no privilege, but hide files such as /etc
 *                     limit of processes      needs no privilege
 *                     verification            reads /proc and opens sockets
 *                     seccomp                 refuses most of the calls above
 */
#include "common/base/err.h"
#include "engine/sandbox/layers.h"
#include "engine/sandbox/namespaces.h"
#include "engine/sandbox/supervisor.h"

#define CONFINE_REASON_MAX 120

struct confine_options {
    /* Borrowed until confine_finish.  The only directory that stays writable. */
    const char *directory;
    uint64_t free_space;
    const char *outside;  /* kilnd's namespaces (namespaces_to_text); NULL: the current ones */
    bool is_workers_user; /* this process's user runs nothing but compilers */
    supervisor_give_up *give_up;
    void *context;
};

struct confinement {
    struct confine_options options;
    struct namespace_ids outside;
    char reason[LAYERS][CONFINE_REASON_MAX];
    /* The process is in a private user namespace, so Linux counts its processes separately
     * (Linux 5.14 or later). */
    bool has_user_namespace;
    struct sandbox_report report;
};

/* Creates the namespaces and mounts. If a process namespace is among them, this function returns
 * only in a child process (supervisor.h). Layers that cannot be created are recorded, and are not
 * an error. */
KILN_MUST_CHECK enum kiln_code confine_begin(struct confinement *c,
                                             const struct confine_options *options,
                                             struct kiln_err *err);
/* Grants write access to |options.directory|, and read access to system directories and to the
 * paths in PATH, LD_LIBRARY_PATH, OCL_ICD_VENDORS, KILN_CUDA_PATH and KILN_ROCM_PATH.  Fills
 * |report|.  After a failure, the process must end. */
KILN_MUST_CHECK enum kiln_code confine_finish(struct confinement *c, struct kiln_err *err);
