/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Judges kilnd's fleet tier by its reply to `status`, and adds findings.
 *
 * Ownership  the reply is borrowed; any member may be missing or malformed
 * Threading  one thread
 */
#include "cli/kilnctl/doctor_findings.h"

#include <stdint.h>

/* Adds findings about the fleet tier.  |fleet| is NULL if kilnd uses no fleet.  |now| is the
 * current time on this host's clock. */
void fleet_judge(const struct json *fleet, uint64_t now, struct findings *findings);
