/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks whether each compiler of the host can compile a one-line kernel now.
 *
 * Threading  one thread
 */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/doctor_findings.h"

/* The result of one test compile. */
struct toolchain_trial {
    const char *name, *target;
    int rc;          /* a KILN_E_ code */
    const char *why; /* the message, if it failed */
};

enum trial_end { /* flags: what the trial says about the compiler */
                 TRIAL_MADE = 1,
                 TRIAL_MADE_NONE = 2,
                 TRIAL_UNTRIED = 4,   /* the host is busy, full, or closed to the caller */
                 TRIAL_UNREACHED = 8, /* the compiler process, or kilnd, died before the trial */
};
enum trial_end toolchain_judge(const struct toolchain_trial *trial, struct findings *findings);
/* Call after the last trial; |ends| is the union of all results.  Adds a failure if no compiler
 * made a kernel, unless some could not be tried (TRIAL_UNTRIED). */
void toolchains_conclude(unsigned ends, struct findings *findings);
/* Adds a finding that says why there is no list of compilers. */
void toolchains_judge_unknown(int rc, const char *why, struct findings *findings);
/* Adds a finding for a kilnd that runs no compiler at all. */
void toolchains_switched_off(struct findings *findings);

/* Tries every compiler for the GPUs in |devices|, kilnd's reply of that name; NULL: not known.
 * Errors such as KILN_E_DENIED become findings, too. */
void toolchains_check(const struct invocation *invocation, const struct json *devices,
                      struct findings *findings);
