/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Limits which system calls this process, and all processes that it starts, may make (seccomp).
 *
 * Linux runs a filter before each system call (seccomp(2)).  The filter sees the call's number
 * and the values of its arguments.  A filter cannot follow pointers, so it cannot check a call
 * whose flags are in a struct (clone3, openat2).  Such a call fails with ENOSYS, as on an older
 * kernel.  Libraries then use the older call (clone, openat), whose flags are arguments.
 *
 * Role       syscalls.def lists the calls allowed to compilers; others fail with EPERM
 * Ownership  permanent for this process and all processes that it starts
 * Threading  call before any thread is started; the filter also applies to a sanitizer's threads
 */
#include "common/base/err.h"

/* Installs the filter of compilers. The process must have set PR_SET_NO_NEW_PRIVS. Returns
 * KILN_UNSUPPORTED if Linux does not support filters. After KILN_NO_MEMORY, the process must end,
 * because a filter without some of its rules may be in force. */
KILN_MUST_CHECK enum kiln_code syscall_filter_compilers(struct kiln_err *err);
/* Allows all calls except those that syscall_filter.c lists. */
KILN_MUST_CHECK enum kiln_code syscall_filter_transfers(struct kiln_err *err);
