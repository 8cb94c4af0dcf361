/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The lock under which libkiln opens libraries, one after the other.
 *
 * Role       fork waits for who holds it, so that no child has a library of which its parent had
 *            loaded half: that library's code and data, and the dynamic linker's word on both, are
 *            nothing that a child could mend or load anew
 * Threading  any thread; a constructor that is run under it may fork.  Nothing is closed (dlclose)
 *            under it: some releases of the C library close a library and fork by one lock, which
 *            fork would hold while it waits for ours
 */
#include "common/err.h"

/* From now on fork waits; for programs that fork while their first library is loaded. */
void load_lock_watch(void);
void load_lock(void);
void load_unlock(void);
/* With the lock held.  KILN_UNAVAILABLE in a child whose parent did not wait for the end of a load,
 * as that took too long: nothing may be loaded here any more. */
KILN_MUST_CHECK enum kiln_code load_check(struct kiln_err *err);
