/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A bench: one problem on the device with its tensors, reference result and clock.
 *
 * If there is enough memory, the bench keeps two sets of operands.  Results are checked on a set
 * whose sums are exact; times are measured on a set that resembles training data.
 *
 * Role       Loads a plan, measures its time, and compares its result with the reference solver's
 *            result on the same operands.  On libkiln's own data, both results must be bitwise
 *            equal, except for Winograd solvers (operands.h explains why)
 * Ownership  a bench owns its memory and events, except what the caller passed; destroy subjects
 *            (plans to be measured) before their bench
 * Threading  one thread
 */
#include "common/protocol/problem.h"
#include "libclient/conv/operands.h"
#include "libclient/conv/pace.h"
#include "libclient/conv/timing.h"

#include <kiln/conv.h>

#define BENCH_REFERENCE "ConvDirectNaive"

struct bench;
struct subject;

struct bench_options {
    struct kiln_device *device;
    const struct problem *problem;
    /* borrowed; indexed by KILN_TENSOR_X, ...; either all are set or none */
    struct kiln_memory *given[3];
    struct kiln_stream *stream;
    struct pace *pace; /* borrowed; how long to rest after work on the device; NULL: never */
};
/* Returns KILN_UNSUPPORTED for 8-bit integers. */
KILN_MUST_CHECK enum kiln_code bench_create(const struct bench_options *options,
                                            struct bench **ret_bench, struct kiln_err *err);
void bench_destroy(struct bench *bench);
static inline void bench_auto(struct bench **bench) { bench_destroy(*bench); }

/* Runs the reference solver's |plan| once and keeps the result.  Call this function before
 * subject_check. */
KILN_MUST_CHECK enum kiln_code bench_refer(struct bench *bench, struct kiln_plan *plan,
                                           struct kiln_err *err);

/* Holds a reference to |plan|.  Fails if an object of |plan| cannot be loaded. */
KILN_MUST_CHECK enum kiln_code subject_create(struct bench *bench, struct kiln_plan *plan,
                                              bool is_winograd, struct subject **ret_subject,
                                              struct kiln_err *err);
void subject_destroy(struct subject *subject);
struct kiln_plan *subject_plan(const struct subject *subject);

/* Launches the subject once and waits for it.  Does not rest. */
KILN_MUST_CHECK enum kiln_code subject_warm_up(struct subject *subject, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code subject_time(struct subject *subject,
                                            const struct timing_limits *limits,
                                            struct timing *ret_timing, struct kiln_err *err);
/* Returns KILN_CORRUPT if the result differs from the reference.  Otherwise sets |ret_checked| to
 * the number of elements compared: all, or those in the first 256 MiB. */
KILN_MUST_CHECK enum kiln_code subject_check(struct subject *subject, uint64_t *ret_checked,
                                             struct kiln_err *err);
/* Returns whether the device still works.  A CUDA or HIP device does not work after a fault. */
bool bench_is_alive(struct bench *bench);
