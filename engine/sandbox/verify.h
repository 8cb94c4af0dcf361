/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Verifies the layers of a sandbox from within: reads what the kernel reports about this process in
 * /proc/self, and makes attempts that must fail.
 *
 * Role       finds out which layers are in force.  A container or a service manager may prevent a
 *            layer that this process requested, or may already provide one that the process cannot
 *            create itself
 * Threading  one thread
 */
#include "engine/sandbox/layers.h"
#include "engine/sandbox/namespaces.h"

/* Checks all layers except seccomp.  Call it before the system call filter is installed, because
 * the filter would block the attempts.  This process's namespaces must differ from |outside| and
 * from the host's; only |directory| may be writable.  Records the result in |report|; the caller
 * sets its |landlock| to the version that was enforced. */
void verify_surroundings(const struct namespace_ids *outside, const char *directory,
                         struct sandbox_report *report);
/* Checks seccomp; call it after the filter was installed. */
void verify_filter(struct sandbox_report *report);
