/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A problem on the device, ready to be solved again and again: tensors, reference result, clock.
 *
 * Role       loads a plan, says how long it takes and whether its result is right.  Right is what
 *            the reference solver computes of the same operands: on data of libkiln's own to the
 *            last bit (but for Winograd's), see operands.h
 * Ownership  a bench owns memories and events but those that the caller gave; subjects are freed
 *            before it
 * Threading  one thread
 *
 * Operands are held twice, where there is memory for it: those that results are checked on, whose
 * sums are exact, and those that time is taken with, as training has them.
 */
#include "common/problem.h"
#include "libclient/conv/operands.h"
#include "libclient/conv/timing.h"

#include <kiln/conv.h>

#define BENCH_REFERENCE "ConvDirectNaive"

struct bench;
struct subject; /* a plan on the bench */

struct bench_wish {
    struct kiln_device *device; /* borrowed */
    const struct problem *problem;
    struct kiln_memory *given[3]; /* borrowed; by KILN_TENSOR_X, ...; all or none */
    struct kiln_stream *stream;   /* borrowed; may be NULL */
};
/* KILN_UNSUPPORTED for 8-bit integers. */
KILN_MUST_CHECK enum kiln_code bench_create(const struct bench_wish *wish, struct bench **ret_bench,
                                            struct kiln_err *err);
void bench_destroy(struct bench *bench); /* accepts NULL */
static inline void bench_auto(struct bench **bench) { bench_destroy(*bench); }

/* Computes what is right with |plan|, of the reference solver.  Before the first bench_check. */
KILN_MUST_CHECK enum kiln_code bench_refer(struct bench *bench, struct kiln_plan *plan,
                                           struct kiln_err *err);

/* Loads |plan|, which it holds; what is loaded fails before anything runs. */
KILN_MUST_CHECK enum kiln_code subject_create(struct bench *bench, struct kiln_plan *plan,
                                              bool is_winograd, struct subject **ret_subject,
                                              struct kiln_err *err);
void subject_destroy(struct subject *subject); /* accepts NULL */
struct kiln_plan *subject_plan(const struct subject *subject);

KILN_MUST_CHECK enum kiln_code subject_time(struct subject *subject,
                                            const struct timing_limits *limits,
                                            struct timing *ret_timing, struct kiln_err *err);
/* KILN_CORRUPT with a sentence where the result is wrong; else |ret_checked| elements agree, all or
 * the first 256 MiB of them. */
KILN_MUST_CHECK enum kiln_code subject_check(struct subject *subject, uint64_t *ret_checked,
                                             struct kiln_err *err);
/* Whether the device still works after a failure: one of CUDA's or HIP's that faulted does not. */
bool bench_is_alive(struct bench *bench);
