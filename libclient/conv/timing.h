/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Timing: how often something is run until its time is known, and what the samples say.
 *
 * Role       warm-up, launches gathered into samples that are long enough for the device's clock,
 *            outliers removed, median and spread; hopeless ones are cut short after one run
 * Ownership  plain values
 * Threading  pure functions; the source is called on the caller's thread
 */
#include "common/err.h"

#define TIMING_SAMPLES_MAX 64u

struct timing_source { /* what is timed; the tests bring one of their own */
    /* |launches| in a row; the device's time for all of them. */
    enum kiln_code (*launch)(void *context, unsigned launches, double *ret_ms,
                             struct kiln_err *err);
    void *context;
};

struct timing_limits {
    double hopeless_ms; /* a first run that takes longer is the only one; 0: no such limit */
    double most_ms;     /* no sample is begun after so much of the device's time */
    unsigned samples;   /* wanted; at least one is taken */
};

struct timing {
    double median_ms; /* of one launch */
    double spread_ms; /* half the width of the middle half */
    unsigned samples; /* that these are of */
    unsigned outliers;
    bool is_cut_short;
};

KILN_MUST_CHECK enum kiln_code timing_take(const struct timing_source *source,
                                           const struct timing_limits *limits,
                                           struct timing *ret_timing, struct kiln_err *err);
/* |samples| are reordered; at least one, all finite. */
struct timing timing_of(double *samples, unsigned count);
