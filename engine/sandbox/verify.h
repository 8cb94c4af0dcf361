/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Verifies the layers of a sandbox from within: reads what the kernel reports about this process in
 * /proc/self, and makes attempts that must fail.
 *
 * Role       a container or a service manager can prevent a layer that was requested, or provide
 *            one that could not be requested
 * Threading  one thread
 */
#include "engine/sandbox/layers.h"
#include "engine/sandbox/namespaces.h"

/* Checks all layers except seccomp.  Call it before the system call filter, which would block
 * the attempts themselves.  This process's namespaces must differ from |outside| and from the
 * host's; only |directory| may be writable.  Records the result in |report|, whose |landlock| is
 * the version that was enforced. */
void verify_surroundings(const struct namespace_ids *outside, const char *directory,
                         struct sandbox_report *report);
/* Checks seccomp, after the filter was installed. */
void verify_filter(struct sandbox_report *report);
