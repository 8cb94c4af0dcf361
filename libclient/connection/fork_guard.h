/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Detects, without a system call, that this process is a forked child of the process that created
 * the guard.
 *
 * Role       reads a page that Linux clears in child processes (MADV_WIPEONFORK).  If this Linux
 *            has no MADV_WIPEONFORK, compares process ids
 * Ownership  fork_guard_init / fork_guard_done
 * Threading  fork_guard_holds from any thread
 */
#include <stdbool.h>
#include <sys/types.h>

struct fork_guard {
    const volatile unsigned char *page; /* NULL: the guard compares |pid| instead */
    pid_t pid;
};

void fork_guard_init(struct fork_guard *guard);
void fork_guard_done(struct fork_guard *guard);
bool fork_guard_holds(const struct fork_guard *guard);
