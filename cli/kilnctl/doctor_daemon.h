/* SPDX-License-Identifier: MIT */
#pragma once

/* Turns the replies of a running kilnd into findings of kilnctl doctor.
 *
 * Ownership  replies are borrowed; any member may be missing or malformed
 * Threading  one thread */
#include "cli/kilnctl/doctor_findings.h"

#include <stdint.h>

/* Warns if kilnctl and kilnd have different versions. Different versions work together, but kilnd
 * probably needs a restart. */
void daemon_judge_version(const char *ours, const char *daemons, struct findings *findings);
void daemon_judge_status(const struct json *status, struct findings *findings);
bool daemon_runs_no_compiler(const struct json *status);
/* Judges the reply to `health`. |now| is the current time on this host's clock. */
void daemon_judge_health(const struct json *health, uint64_t now, struct findings *findings);
void daemon_judge_packages(const struct json *list, const struct json *coverage,
                           struct findings *findings);
/* If the host has AMD GPUs (|coverage| lists them), checks whether MIOpen is installed. */
void daemon_judge_miopen(const struct json *coverage, struct findings *findings);
void daemon_judge_tuning(const struct json *verified, struct findings *findings);
