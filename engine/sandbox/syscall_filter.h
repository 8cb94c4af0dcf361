/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which system calls this process and all that it starts may make (seccomp).
 *
 * Role       syscalls.def says which; the rest fails with EPERM, so that a library that tries one
 *            goes on without it, and nothing hangs
 * Ownership  holds for this process and all that it starts, for ever
 * Threading  before any thread is started; threads that a sanitizer has already are filtered too
 */
#include "common/err.h"

/* The process must have given up new privileges.  KILN_UNSUPPORTED, saying why, where the kernel
 * has no filters. */
KILN_MUST_CHECK enum kiln_code syscall_filter_compilers(struct kiln_err *err);
/* For transfers, which need sockets, names and threads: all calls but those that syscall_filter.c
 * lists as none of theirs. */
KILN_MUST_CHECK enum kiln_code syscall_filter_transfers(struct kiln_err *err);
