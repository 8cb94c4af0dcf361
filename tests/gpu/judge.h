/* SPDX-License-Identifier: MIT */
#pragma once

/* Decides whether a solution's result on the GPU is correct.
 *
 * Role       fills a problem's operands with random numbers and its output with NaNs, and compares
 *            the result with a reference that runs on the GPU (tests/gpu/reference.cu).
 *            judge_check_itself compares this reference with the CPU's
 * Ownership  a bench owns its device memory (bench_done)
 * Threading  one thread */
#include "cli/driver/rounding.h"
#include "common/protocol/problem.h"
#include "tests/gpu/cuda_driver.h"
#include "tests/gpu/nvrtc.h"

/* Size of a guard in bytes. There is a guard before and after every memory; no kernel may write
 * there. */
#define JUDGE_GUARD 4096u

enum judge_kernel { JUDGE_FILL, JUDGE_CHECKSUM, JUDGE_REFERENCE, JUDGE_COMPARE, JUDGE_KERNELS };

struct judge {
    struct cuda *cuda;
    void *module;
    void *kernels[JUDGE_KERNELS];
    uint64_t scratch; /* device memory for a checksum, or for the result of a comparison */
};

/* The reference's program. The caller compiles it for judge_open. */
struct solution_program judge_program(void);
KILN_MUST_CHECK enum kiln_code judge_open(struct cuda *cuda, struct bytes object,
                                          struct judge *ret_judge, struct kiln_err *err);
void judge_close(struct judge *judge);

struct guarded {
    uint64_t address;
    uint64_t bytes;
};

enum bench_tensor { BENCH_X, BENCH_W, BENCH_Y, BENCH_TENSORS };

struct bench {
    struct problem problem;
    struct guarded tensors[BENCH_TENSORS];
    uint64_t elements[BENCH_TENSORS];
    enum bench_tensor output;
    uint64_t checksums[BENCH_TENSORS];
    /* Device addresses of doubles, one for each element of the output: the expected value, and the
     * sum of its terms' absolute values. */
    uint64_t want, magnitude;
    /* every product is a multiple of this; 0 if the products may be any numbers */
    double quantum;
};

enum bench_data {
    BENCH_EXACT, /* fp32 represents all sums exactly, so results must be bitwise equal */
    /* Any numbers. Used for timing, because the GPU's power and clock depend on the data. */
    BENCH_GENERAL,
};

KILN_MUST_CHECK enum kiln_code bench_init(struct judge *judge, const struct problem *problem,
                                          struct bench *ret_bench, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code bench_fill(struct judge *judge, struct bench *bench,
                                          enum bench_data data, uint64_t seed,
                                          struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code bench_refer(struct judge *judge, struct bench *bench,
                                           struct kiln_err *err);
void bench_done(struct judge *judge, struct bench *bench);

/* Allocates |bytes| between two guards, and sets all bits of the memory and the guards. As elements
 * of any type, they are NaNs. */
KILN_MUST_CHECK enum kiln_code guarded_allocate(struct cuda *cuda, uint64_t bytes,
                                                struct guarded *ret_memory, struct kiln_err *err);
void guarded_free(struct cuda *cuda, struct guarded *memory);
KILN_MUST_CHECK enum kiln_code guarded_poison(struct cuda *cuda, const struct guarded *memory,
                                              struct kiln_err *err);
/* Returns KILN_CORRUPT with |name| in the message if a guard was overwritten. */
KILN_MUST_CHECK enum kiln_code guarded_check(struct cuda *cuda, const struct guarded *memory,
                                             const char *name, struct kiln_err *err);

struct verdict {
    uint64_t wrong;
    uint64_t first;
    double got, want, bound;
    /* the largest error of a correct element, relative to the sum of its terms' absolute values */
    double error;
};

struct rounding bench_rounding(const struct bench *bench, const char *solver, const char *config);
/* Compares the output with the reference; call bench_refer before. Returns KILN_CORRUPT and fills
 * |ret_verdict| if an element is wrong, or a guard or an operand was overwritten. */
KILN_MUST_CHECK enum kiln_code bench_verdict(struct judge *judge, struct bench *bench,
                                             const struct rounding *rounding,
                                             struct verdict *ret_verdict, struct kiln_err *err);

KILN_MUST_CHECK enum kiln_code judge_check_itself(struct judge *judge, unsigned count,
                                                  struct kiln_err *err);
