/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks whether each compiler of the host can compile a one-line kernel now.
 *
 * Threading  one thread
 */
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
    /* Not tried: the host is busy or full, or denies access to the caller. */
    TRIAL_UNTRIED = 4,
    TRIAL_UNREACHED = 8, /* the compiler process, or kilnd, ended before the trial */
};
enum trial_end toolchain_judge(const struct toolchain_trial *trial, struct findings *findings);
/* Adds a failure if no compiler could compile a kernel, unless some could not be tried
 * (TRIAL_UNTRIED).  |ends| is the union of the results of all trials. */
void toolchains_conclude(unsigned ends, struct findings *findings);
void toolchains_judge_unknown(int rc, const char *why, struct findings *findings);
void toolchains_switched_off(struct findings *findings);

/* Tries every compiler for the GPUs in |devices|, which is kilnd's reply to `devices`, or NULL if
 * not known.  Errors such as KILN_E_DENIED become findings, too. */
void toolchains_check(const struct invocation *invocation, const struct json *devices,
                      struct findings *findings);
