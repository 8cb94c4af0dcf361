/* SPDX-License-Identifier: MIT */
#pragma once

/* Makes a system call fail with |error|, as on an old Linux (ENOSYS) or under a container's
 * filter (EPERM). This affects the calling thread and all threads and processes that it starts,
 * and cannot be undone. */
#include <stdbool.h>

/* |number| is that of the system call, a SYS_ constant. Returns false if this host forbids seccomp
 * filters. */
bool refuse_call(int number, int error);
