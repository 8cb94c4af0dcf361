/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Looks at the layers of a sandbox from within: by what the system says of this process, and by
 * trying what must not work.
 *
 * Role       what was asked for and what is in force differ where a container or a service manager
 *            stands between
 * Threading  one thread
 */
#include "engine/sandbox/layers.h"
#include "engine/sandbox/namespaces.h"

/* Before the filter of system calls, which would refuse the attempts themselves: all layers but
 * seccomp.  |outside|: namespaces that must not be this process's, and neither may the host's be.
 * |directory|: nothing else may be mounted for writing.  Notes in |report| what there is;
 * |landlock| of it is the version that was enforced. */
void verify_surroundings(const struct namespace_ids *outside, const char *directory,
                         struct sandbox_report *report);
/* After it. */
void verify_filter(struct sandbox_report *report);
