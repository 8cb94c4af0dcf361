/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Starts a process that is no child of this one: no wait of the program sees it, and no SIGCHLD
 * comes of it.
 *
 * Threading  any thread
 */
#include "daemon/loop/spawn.h"

/* 0, or an errno.  Where orphans come to this very process (process 1 of a container, a subreaper)
 * it is a child all the same: whoever started it reaps |ret_pid| then, once it has ended. */
int detached_start(const struct loop_spawn *spawn, pid_t *ret_pid);
