/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The lock under which libkiln opens libraries, one at a time.
 *
 * Role       fork() waits for the holder, so that no child inherits a half-loaded library.  A child
 *            could not repair or reload such a library, and could not repair the dynamic linker's
 *            state
 * Threading  Any thread.  A constructor that runs under the lock may fork.  Nobody may call dlclose
 *            under it: in some releases of the C library, dlclose and fork use the same internal
 *            lock, and fork would hold that while it waits for this lock
 */
#include "common/base/err.h"

/* Makes fork wait from now on.  Otherwise fork only waits after the first call of load_lock.  For
 * programs that may fork during that first call. */
void load_lock_watch(void);
void load_lock(void);
void load_unlock(void);
/* Checks that this process can load libraries; call it with the lock held.  Returns
 * KILN_UNAVAILABLE in a child that was forked during a load, which happens if the load takes longer
 * than fork waits.  Such a child cannot load any library. */
KILN_MUST_CHECK enum kiln_code load_check(struct kiln_err *err);
