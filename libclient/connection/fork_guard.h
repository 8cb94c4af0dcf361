/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Fork guard: tells a process from the children that it forked, without a system call.
 *
 * Role       a page that the kernel wipes in children; where it cannot, the process id
 * Ownership  fork_guard_init / fork_guard_done
 * Threading  fork_guard_holds from any thread
 */
#include <stdbool.h>
#include <sys/types.h>

struct fork_guard {
    const volatile unsigned char *page; /* owned mapping; NULL: compare |pid| */
    pid_t pid;
};

void fork_guard_init(struct fork_guard *guard);
void fork_guard_done(struct fork_guard *guard);
/* False in a child of the process that called fork_guard_init. */
bool fork_guard_holds(const struct fork_guard *guard);
