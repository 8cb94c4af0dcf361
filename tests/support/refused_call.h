/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A system call that is refused, as by an old kernel (ENOSYS) or by a container's filter (EPERM).
 *
 * Threading  the calling thread's, for good, and for all that it starts
 */
#include <stdbool.h>

/* |number|: SYS_...  False: no filter can be set here. */
bool refuse_call(int number, int error);
