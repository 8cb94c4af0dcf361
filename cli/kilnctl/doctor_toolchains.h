/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Whether each compiler of the host makes a kernel of one line, now.
 *
 * Threading  one thread
 */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/doctor_findings.h"

/* What came of one kernel. */
struct toolchain_trial {
    const char *name, *target;
    int rc;          /* a KILN_E_ code */
    const char *why; /* its sentence, where it failed */
};

enum trial_end { /* what it says of the compiler; they can be added up */
                 TRIAL_MADE = 1,
                 TRIAL_MADE_NONE = 2,
                 TRIAL_UNTRIED = 4,   /* the host is busy, full, or closed to who asks */
                 TRIAL_UNREACHED = 8, /* its process, or kilnd, did not live to ask it */
};
enum trial_end toolchain_judge(const struct toolchain_trial *trial, struct findings *findings);
/* Behind the last trial; |ends| are those of all.  Adds a failure where every compiler was to be
 * tried, and none made a kernel. */
void toolchains_conclude(unsigned ends, struct findings *findings);
/* Why there is no list of compilers. */
void toolchains_judge_unknown(int rc, const char *why, struct findings *findings);
/* Where kilnd runs no compiler at all. */
void toolchains_switched_off(struct findings *findings);

/* |devices|: kilnd's answer of that name, the GPUs to compile for; NULL: not known.
 * KILN_E_DENIED and the like are findings, too. */
void toolchains_check(const struct invocation *invocation, const struct json *devices,
                      struct findings *findings);
