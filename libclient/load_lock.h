/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The lock that libkiln holds while it opens a library.
 *
 * Role       fork() waits for the holder, so that no child inherits a half-loaded library, which
 *            the child could not repair
 * Threading  Any thread.  A constructor that runs under the lock may fork.  The holder must not
 *            call dlclose.  In some releases of the C library, dlclose needs a lock that fork()
 *            holds while it waits for the holder
 */
#include "common/base/err.h"

/* Makes fork() wait for loads from now on.  Without this call, fork() waits only after the first
 * call of load_lock, which is too late for a program that forks during the first load. */
void load_lock_watch(void);
void load_lock(void);
void load_unlock(void);
/* Returns KILN_UNAVAILABLE in a child that was forked during a load, because such a child cannot
 * load any library.  The caller holds the lock. */
KILN_MUST_CHECK enum kiln_code load_check(struct kiln_err *err);
