/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Mounts of a private mount namespace: everything is read-only except one directory, and /proc
 * shows the private process namespace.
 *
 *     /          read-only (mount_setattr(2), recursively)
 *       proc     a new proc file system
 *       DIR      writable: a bind mount, or a tmpfs of limited size
 *
 * Ownership  permanent for this process and all processes that it starts
 * Threading  call before any thread is started
 */
#include "common/base/err.h"

#include <stdint.h>

/* Mounts a private /proc. On Linux 6.14 or later, also limits the namespace to |processes|
 * processes. */
KILN_MUST_CHECK enum kiln_code mounts_own_proc(unsigned processes, struct kiln_err *err);
/* Leaves only |directory| writable, and enters it.  Unless |free_space| is 0, mounts an empty
 * in-memory file system of that many bytes there. */
KILN_MUST_CHECK enum kiln_code mounts_read_only_but(const char *directory, uint64_t free_space,
                                                    struct kiln_err *err);
