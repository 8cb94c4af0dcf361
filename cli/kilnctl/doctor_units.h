/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What systemd says of kilnd's units.
 *
 * Threading  one thread
 */
#include "cli/kilnctl/doctor_findings.h"

/* |is_system|: the system's manager, else the caller's own. */
void units_check(bool is_system, struct findings *findings);
/* |text|: what `systemctl show` prints of kilnd.socket and kilnd.service, an empty line between. */
void units_judge(const char *text, bool is_system, struct findings *findings);
