/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The plans of a trace, or the commands of a log, as problems to request again, in the order of
 * first use.
 *
 * Role       groups the plans that can be requested together, because they have the same target,
 *            database id, toolchain and solver.  Can change the target and the batch size
 * Ownership  a trace_groups owns its groups until trace_groups_done
 * Threading  one thread
 */
#include "cli/kilnctl/trace_job.h"
#include "cli/problem_set.h"

struct trace_group {
    /* If one of these is empty, kilnd chooses the value. */
    char target[TRACE_WORD_MAX + 1], database_id[TRACE_WORD_MAX + 1];
    char toolchain[TRACE_WORD_MAX + 1], solver[TRACE_WORD_MAX + 1];
    struct problem_set problems;
};

/* Maximum number of groups.  Real jobs have a few.  The lines of a hostile trace must not cost
 * memory for a group each, and time for a comparison with every group. */
#define TRACE_GROUPS_MAX 256u

/* Number of problems after which |in_order| begins new groups: enough to keep all compilers of a
 * host busy. */
#define TRACE_WINDOW 64u

struct trace_groups {
    struct trace_group **list; /* in the order of their first plans */
    size_t count, problems;
    /* index of the first group that new problems may join, and the number of problems when it was
     * made */
    size_t window, window_problems;
    /* number of plans and commands that were left out, because this version of kilnctl cannot read
     * a problem from them, or because there are too many groups */
    size_t unreadable;
};

struct trace_change {
    const char *target; /* NULL: the target of the trace */
    /* NULL: the trace's id, or none if |target| is not the trace's target */
    const char *database_id;
    uint32_t batch;  /* 0: the batch size of the trace */
    bool any_solver; /* ignores the solvers and toolchains of the trace */
    /* Begins new groups after each TRACE_WINDOW problems, so that groups follow the order in which
     * the job wanted its plans.  Otherwise, all problems of the first group come before those of
     * the second one.  For example, a find requests the plans of all solvers for one problem before
     * the next problem, and each solver is a group. */
    bool in_order;
};

CLI_MUST_CHECK int trace_groups_make(const struct trace_job *job, const struct trace_change *change,
                                     struct trace_groups *ret_groups, struct kiln_error *err);
/* Reads the MIOpenDriver command lines of a file, such as a log with MIOPEN_ENABLE_LOGGING_CMD=1,
 * into one group.  Ignores other lines. */
CLI_MUST_CHECK int trace_groups_read_log(const char *path, const struct trace_change *change,
                                         struct trace_groups *ret_groups, struct kiln_error *err);
void trace_groups_done(struct trace_groups *groups);
#define TRACE_GROUPS_AUTO __attribute__((cleanup(trace_groups_done)))
