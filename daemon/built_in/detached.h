/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Starts a process that is not a child of this one: no wait() of the program sees it, and it causes
 * no SIGCHLD.
 *
 * Threading  any thread
 */
#include "daemon/loop/spawn.h"

/* Returns 0 or an errno.  If this process adopts orphans (process 1 of a container, a
 * subreaper), the new process becomes its child nevertheless; the caller then reaps |ret_pid|
 * after its end. */
int detached_start(const struct loop_spawn *spawn, pid_t *ret_pid);
