/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Confines a transfer process to the files (Linux Landlock) and the system calls (seccomp) that a
 * transfer needs. Drops its capabilities and the right to gain others.
 *
 * Role       limits the harm if an unknown server takes control of the process: it can only write
 *            to the staging directory, and can neither reach the stores nor start programs
 * Ownership  permanent for this process
 * Threading  before any thread is started
 */
#include "engine/transfer/transfer_job.h"

#include <sys/types.h>

struct transfer_user {
    uid_t uid;
    gid_t gid;
};

/* Switches permanently to |user| unless it is NULL. Afterwards, outside job->staging, the process
 * can only read the source (if its URL begins with file:), the manifest of the source, the trusted
 * keys, certificate authorities, the resolver's files and system libraries. Returns
 * KILN_UNSUPPORTED if Linux has no Landlock (before 5.13, or switched off) or no system-call
 * filter; the other restrictions still apply. */
KILN_MUST_CHECK enum kiln_code transfer_confine(const struct transfer_job *job,
                                                const struct transfer_user *user,
                                                struct kiln_err *err);
struct fleet_tree_place {
    const char *directory; /* NULL: the tree is on a server */
    bool writes;           /* files may be added to the directory */
    /* The process reads the file with the token for credentials (engine/transfer/store_provider.h).
     */
    bool reads_token;
};
/* Confines the process that accesses the fleet's tree in the same way as transfer_confine. */
KILN_MUST_CHECK enum kiln_code fleet_confine(const struct fleet_tree_place *place,
                                             const struct transfer_user *user,
                                             struct kiln_err *err);
