/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A bench: one problem on the device with its tensors, reference result and clock.
 *
 * Role       Loads a plan, measures its time and checks its result against that of the reference
 *            solver on the same operands.  On libkiln's own data the two must be equal to the last
 *            bit (except for Winograd's); see operands.h
 * Ownership  a bench owns its memories and events, except those that the caller passed; free
 *            subjects before their bench
 * Threading  one thread
 *
 * If there is enough memory, the bench keeps two sets of operands.  Results are checked on one
 * whose sums are exact, and times are measured on one that resembles training data.
 */
#include "common/protocol/problem.h"
#include "libclient/conv/operands.h"
#include "libclient/conv/timing.h"

#include <kiln/conv.h>

#define BENCH_REFERENCE "ConvDirectNaive"

struct bench;
struct subject; /* a plan that is measured */

struct bench_options {
    struct kiln_device *device; /* borrowed */
    const struct problem *problem;
    struct kiln_memory *given[3]; /* borrowed; by KILN_TENSOR_X, ...; all or none */
    struct kiln_stream *stream;   /* borrowed; may be NULL */
};
/* KILN_UNSUPPORTED for 8-bit integers. */
KILN_MUST_CHECK enum kiln_code bench_create(const struct bench_options *options,
                                            struct bench **ret_bench, struct kiln_err *err);
void bench_destroy(struct bench *bench); /* accepts NULL */
static inline void bench_auto(struct bench **bench) { bench_destroy(*bench); }

/* Computes the reference result with |plan|, a plan of the reference solver.  Call it before any
 * check. */
KILN_MUST_CHECK enum kiln_code bench_refer(struct bench *bench, struct kiln_plan *plan,
                                           struct kiln_err *err);

/* Loads |plan| and holds a reference to it; objects that cannot be loaded fail here, before any
 * launch. */
KILN_MUST_CHECK enum kiln_code subject_create(struct bench *bench, struct kiln_plan *plan,
                                              bool is_winograd, struct subject **ret_subject,
                                              struct kiln_err *err);
void subject_destroy(struct subject *subject); /* accepts NULL */
struct kiln_plan *subject_plan(const struct subject *subject);

KILN_MUST_CHECK enum kiln_code subject_time(struct subject *subject,
                                            const struct timing_limits *limits,
                                            struct timing *ret_timing, struct kiln_err *err);
/* KILN_CORRUPT with a message if the result is wrong.  Otherwise |ret_checked| elements agree: all
 * of them, or the first 256 MiB. */
KILN_MUST_CHECK enum kiln_code subject_check(struct subject *subject, uint64_t *ret_checked,
                                             struct kiln_err *err);
/* Whether the device still works after a failure; a CUDA or HIP device that faulted does not. */
bool bench_is_alive(struct bench *bench);
