/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What is mounted, in a mount namespace of our own: all of it read-only but one folder, and a /proc
 * that shows our own process namespace.
 *
 * Ownership  holds for this process and all that it starts
 * Threading  before any thread is started
 */
#include "common/err.h"

/* A /proc of its own, and no more than |processes| in the namespace, where the kernel can bound
 * them (Linux 6.14). */
KILN_MUST_CHECK enum kiln_code mounts_own_proc(unsigned processes, struct kiln_err *err);
/* |folder| alone stays writable, and is entered. */
KILN_MUST_CHECK enum kiln_code mounts_read_only_but(const char *folder, struct kiln_err *err);
