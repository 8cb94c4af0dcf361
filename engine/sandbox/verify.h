/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Verifies the layers of a sandbox from within: reads what Linux reports about this process in
 * /proc/self, and makes attempts that must fail.
 *
 * Role       A container or a service manager may prevent a layer that this process requested, or
 *            may already provide a layer that the process cannot create itself
 * Threading  one thread
 */
#include "engine/sandbox/layers.h"
#include "engine/sandbox/namespaces.h"

/* Checks all layers except seccomp. Call this function before the seccomp filter is installed,
 * because the filter would block the attempts. This process's namespaces must differ from |outside|
 * and from the host's; only |directory| may be writable. The caller sets |report->landlock|. */
void verify_surroundings(const struct namespace_ids *outside, const char *directory,
                         struct sandbox_report *report);
/* Checks the seccomp layer. Call this function after the seccomp filter was installed. */
void verify_filter(struct sandbox_report *report);
