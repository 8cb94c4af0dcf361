/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks the state of kilnd's systemd units.
 *
 * Threading  one thread
 */
#include "cli/kilnctl/doctor_findings.h"

/* Asks the system's manager if |is_system|, else the caller's user manager. */
void units_check(bool is_system, struct findings *findings);
/* |text| is the output of `systemctl show` for kilnd.socket and kilnd.service, separated by an
 * empty line. */
void units_judge(const char *text, bool is_system, struct findings *findings);
