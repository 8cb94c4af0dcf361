/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Makes a system call fail, as an old kernel (ENOSYS) or a container's filter (EPERM) does.
 *
 * Threading  for the calling thread and all threads and processes that it starts, for ever
 */
#include <stdbool.h>

/* |number|: SYS_... False if this host does not allow a filter. */
bool refuse_call(int number, int error);
