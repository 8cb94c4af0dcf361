/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The lock under which libkiln opens libraries, one at a time.
 *
 * Role       fork() waits for the holder, so that no child inherits a half-loaded library.  A child
 *            could neither repair nor reload such a library, nor the dynamic linker's state
 * Threading  Any thread.  A constructor that runs under the lock may fork.  Nobody may call dlclose
 *            under it: in some releases of the C library, dlclose and fork share a lock, which fork
 *            would hold while it waits for this one
 */
#include "common/base/err.h"

/* Makes fork wait from now on, instead of from the first load_lock on; for programs that fork while
 * the lock is taken for the first time. */
void load_lock_watch(void);
void load_lock(void);
void load_unlock(void);
/* Call it with the lock held.  KILN_UNAVAILABLE in a child that was forked during a load, because
 * the load took longer than fork waits: such a child cannot load any library. */
KILN_MUST_CHECK enum kiln_code load_check(struct kiln_err *err);
