/* SPDX-License-Identifier: MIT */
#pragma once

/* Checks whether kilnd's compilers work: each must compile a kernel of one line.
 *
 * Threading  one thread */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/doctor_findings.h"

struct toolchain_trial {
    const char *name, *target;
    int rc;
    const char *why;
};

enum trial_end {
    TRIAL_MADE = 1,
    TRIAL_MADE_NONE = 2,
    /* no result, because kilnd is busy, is full, does not answer in time, or denies access to the
     * caller */
    TRIAL_UNTRIED = 4,
    TRIAL_UNREACHED = 8, /* kilnd or its compiler process ended before the trial */
};
enum trial_end toolchain_judge(const struct toolchain_trial *trial, struct findings *findings);
/* Adds a failure if no compiler could compile its kernel, unless some compilers were not tried.
 * |ends| has the bits of all trials' results. */
void toolchains_conclude(unsigned ends, struct findings *findings);
void toolchains_judge_unknown(int rc, const char *why, struct findings *findings);
void toolchains_switched_off(struct findings *findings);

/* Tries every compiler, for the GPUs in |devices| (kilnd's reply to `devices`; may be NULL). Adds
 * findings for errors such as KILN_E_DENIED, too. */
void toolchains_check(const struct invocation *invocation, const struct json *devices,
                      struct findings *findings);
