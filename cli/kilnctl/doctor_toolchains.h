/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Whether each compiler of the host makes a kernel of one line, now.
 *
 * Threading  one thread
 */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/doctor_findings.h"

/* |devices|: kilnd's answer of that name, the GPUs to compile for; NULL: not known.
 * KILN_E_DENIED and the like are findings, too. */
void toolchains_check(const struct invocation *invocation, const struct json *devices,
                      struct findings *findings);
