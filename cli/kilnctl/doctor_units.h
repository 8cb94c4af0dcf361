/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks the state of kilnd's systemd units.
 *
 * Threading  one thread
 */
#include "cli/kilnctl/doctor_findings.h"

/* Message ids of the log events start_failed and configuration_refused
 * (common/log/log_events.def). */
#define UNITS_START_FAILED_ID "9cf5e6db3faf34a1dab9af48a6a7ced6"
#define UNITS_CONFIGURATION_REFUSED_ID "cafd36e25cbbdf3208f629419984d3de"

/* Adds findings about the units of the system's service manager if |is_system| is set, otherwise of
 * the caller's. If |answers| is not set, also adds the reason of the last failed start. */
void units_check(bool is_system, bool answers, struct findings *findings);
/* |text| is the output of `systemctl show`, which separates the units by empty lines. */
void units_judge(const char *text, bool is_system, struct findings *findings);
/* |line| is the last line in the journal about a failed start of kilnd, or "". */
void units_judge_journal(const char *line, struct findings *findings);
