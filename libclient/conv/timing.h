/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Runs a kernel as often as needed to know its time, and computes statistics of the samples.
 *
 * Role       runs the kernel once as a warm-up, groups launches into samples that are long enough
 *            for the device's clock, removes outliers, and computes median and spread.  Very slow
 *            kernels are cut short after one run, and slower ones are sampled less often
 * Ownership  plain values
 * Threading  pure functions; the source is called on the caller's thread
 */
#include "common/base/err.h"

#define TIMING_SAMPLES_MAX 64u

struct timing_source { /* the launches to time; tests supply their own */
    /* Sets |ret_ms| to the device's time for all launches, which run in a row. */
    enum kiln_code (*launch)(void *context, unsigned launches, double *ret_ms,
                             struct kiln_err *err);
    void *context;
};

struct timing_limits {
    /* Maximum time of the first timed run; a slower kernel is not run again.  0: no limit. */
    double hopeless_ms;
    /* If each of the first five samples takes longer, no other sample begins.  0: no limit. */
    double slower_ms;
    /* after the samples took this much device time, no other begins */
    double limit_ms;
    unsigned samples; /* number of samples to take; 0 counts as 1 */
};

struct timing {
    double median_ms;
    double spread_ms; /* half the interquartile range */
    unsigned samples;
    bool is_cut_short;
};

KILN_MUST_CHECK enum kiln_code timing_take(const struct timing_source *source,
                                           const struct timing_limits *limits,
                                           struct timing *ret_timing, struct kiln_err *err);
/* Reorders |samples|, which must be finite.  |count| must be at least 1. */
struct timing timing_of(double *samples, unsigned count);
