/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Mounts of a private mount namespace: everything read-only except one directory, and a /proc that
 * shows the private process namespace.
 *
 * Ownership  holds for this process and all that it starts
 * Threading  call before any thread is started
 */
#include "common/err.h"

#include <stdint.h>

/* Mounts a private /proc and, where the kernel supports it (Linux 6.14), limits the namespace to
 * |processes| processes. */
KILN_MUST_CHECK enum kiln_code mounts_own_proc(unsigned processes, struct kiln_err *err);
/* Leaves only |directory| writable, and enters it.  With |room|, an empty in-memory file system
 * of that many bytes is mounted there; with 0 it stays as it is. */
KILN_MUST_CHECK enum kiln_code mounts_read_only_but(const char *directory, uint64_t room,
                                                    struct kiln_err *err);
