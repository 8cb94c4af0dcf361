/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Limits which system calls this process and all that it starts may make (seccomp).
 *
 * Role       syscalls.def lists the allowed ones; others fail with EPERM.  So a library that tries
 *            one continues without it, and nothing hangs
 * Ownership  holds for this process and all that it starts, for ever
 * Threading  call before any thread is started; threads that a sanitizer already has are filtered
 * too
 */
#include "common/err.h"

/* The process must have set PR_SET_NO_NEW_PRIVS.  KILN_UNSUPPORTED, with the reason, if the
 * kernel has no filters. */
KILN_MUST_CHECK enum kiln_code syscall_filter_compilers(struct kiln_err *err);
/* For transfers, which need sockets, file names and threads: allows all calls except those that
 * syscall_filter.c lists. */
KILN_MUST_CHECK enum kiln_code syscall_filter_transfers(struct kiln_err *err);
