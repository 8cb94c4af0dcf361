/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What is mounted, in a mount namespace of our own: all of it read-only but one directory, and a
 * /proc that shows our own process namespace.
 *
 * Ownership  holds for this process and all that it starts
 * Threading  before any thread is started
 */
#include "common/err.h"

#include <stdint.h>

/* A /proc of its own, and no more than |processes| in the namespace, where the kernel can bound
 * them (Linux 6.14). */
KILN_MUST_CHECK enum kiln_code mounts_own_proc(unsigned processes, struct kiln_err *err);
/* |directory| alone stays writable, and is entered.  |room|: it is an empty one in memory, of so
 * many bytes, instead of the disk's; 0: it is as it was. */
KILN_MUST_CHECK enum kiln_code mounts_read_only_but(const char *directory, uint64_t room,
                                                    struct kiln_err *err);
