/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Fork guard: detects, without a system call, that this process is a child of the one that made it.
 *
 * Role       a page that the kernel wipes in children; if it cannot, the process id
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
