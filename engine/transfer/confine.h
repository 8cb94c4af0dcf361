/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Confines a transfer process to the files (Linux Landlock) and the system calls (seccomp) that a
 * transfer needs. Drops its capabilities and the right to gain others.
 *
 * Role       a transfer talks to unknown servers and unpacks their files. Even if a server takes
 *            control of the process, it can only write to the staging directory. It cannot reach
 *            the stores or start programs
 * Ownership  permanent for this process
 * Threading  before any thread is started
 */
#include "engine/transfer/transfer_job.h"

#include <sys/types.h>

struct transfer_user {
    uid_t uid;
    gid_t gid;
};

/* Confines the process and, if |user| is not NULL, switches to this user permanently.  The process
 * can then write only to the staging directory.  It can read the file of a file: URL and its
 * manifest, the trusted keys, certificate authorities, the resolver's files and system libraries.
 * Returns KILN_UNSUPPORTED if the kernel has no Landlock (before 5.13, or switched off) or no
 * system-call filter; the other restrictions still apply. */
KILN_MUST_CHECK enum kiln_code transfer_confine(const struct transfer_job *job,
                                                const struct transfer_user *user,
                                                struct kiln_err *err);
