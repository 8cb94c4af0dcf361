/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What is judged of a kilnd that answers: its answers in, findings out.
 *
 * Ownership  answers are borrowed; they may lack anything, or hold anything
 * Threading  one thread
 */
#include "cli/kilnctl/doctor_findings.h"

#include <stdint.h>

/* The two ends' versions: other builds of kiln understand each other, but should be the same. */
void daemon_judge_version(const char *ours, const char *daemons, struct findings *findings);
/* Answer of `status`: the store's and the tuning database's state, compilers, confinement. */
void daemon_judge_status(const struct json *status, struct findings *findings);
/* Whether that answer says that no compiler may run. */
bool daemon_runs_no_compiler(const struct json *status);
/* Answer of `health`.  |now|: this end's clock. */
void daemon_judge_health(const struct json *health, uint64_t now, struct findings *findings);
/* Answers of `package_list` and `package_coverage`. */
void daemon_judge_packages(const struct json *list, const struct json *coverage,
                           struct findings *findings);
/* Answer of `tuning_verify`. */
void daemon_judge_tuning(const struct json *verified, struct findings *findings);
