/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Timing: how often to run a kernel until its time is known, and the statistics of the samples.
 *
 * Role       Warm-up; groups launches into samples that are long enough for the device's clock;
 *            removes outliers; computes median and spread.  Very slow kernels are cut short after
 *            one run
 * Ownership  plain values
 * Threading  pure functions; the source is called on the caller's thread
 */
#include "common/base/err.h"

#define TIMING_SAMPLES_MAX 64u

struct timing_source { /* what is timed; the tests supply their own */
    /* Runs |launches| launches in a row.  Sets |ret_ms| to the device's time for all of them. */
    enum kiln_code (*launch)(void *context, unsigned launches, double *ret_ms,
                             struct kiln_err *err);
    void *context;
};

struct timing_limits {
    double hopeless_ms; /* if the first run takes longer, it is the only one; 0: no limit */
    double limit_ms;    /* no sample begins after this much of the device's time */
    unsigned samples;   /* number requested; at least one is taken */
};

struct timing {
    double median_ms; /* of one launch */
    double spread_ms; /* half the interquartile range */
    unsigned samples; /* number of samples used for the values above */
    unsigned outliers;
    bool is_cut_short;
};

KILN_MUST_CHECK enum kiln_code timing_take(const struct timing_source *source,
                                           const struct timing_limits *limits,
                                           struct timing *ret_timing, struct kiln_err *err);
/* Returns the statistics of |samples| and reorders them.  There must be at least one, and all must
 * be finite. */
struct timing timing_of(double *samples, unsigned count);
