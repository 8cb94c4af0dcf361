/* SPDX-License-Identifier: MIT */
#pragma once

/* Makes a system call fail, as on an old Linux (ENOSYS) or with a container's filter (EPERM). The
 * failure affects the calling thread and all threads and processes that it starts, and cannot be
 * undone. */
#include <stdbool.h>

/* |number| is the SYS_... of the call. Returns false if this host does not allow a filter. */
bool refuse_call(int number, int error);
