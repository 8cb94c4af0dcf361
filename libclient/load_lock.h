/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The lock that libkiln holds while it opens a library.
 *
 * Role       fork() waits for the holder, so that no child inherits a half-loaded library.  A child
 *            could not repair or reload such a library, and could not repair the dynamic linker's
 *            state
 * Threading  Any thread.  A constructor that runs under the lock may fork.  The holder must not
 *            call dlclose: in some releases of the C library, dlclose needs a lock that fork()
 *            holds while it waits for the holder, so neither would continue until fork() stops
 *            waiting
 */
#include "common/base/err.h"

/* Makes fork() wait for loads from now on.  If this function is not called, fork() waits only after
 * the first call of load_lock.  That is too late for a program that forks during this call. */
void load_lock_watch(void);
void load_lock(void);
void load_unlock(void);
/* Checks that this process can load libraries.  The caller holds the lock.  Returns
 * KILN_UNAVAILABLE in a child that was forked during a load, because such a child cannot load any
 * library.  A fork happens during a load if the load takes longer than fork() waits. */
KILN_MUST_CHECK enum kiln_code load_check(struct kiln_err *err);
