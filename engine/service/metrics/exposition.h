/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Prometheus' text exposition format, version 0.0.4.
 *
 * Role       HELP and TYPE of a family, then its samples; escapes what may stand in them
 * Ownership  borrows the buffer and the family's texts
 * Threading  one thread
 *
 * Running out of memory is sticky in the buffer.
 */
#include "common/bytes.h"
#include "engine/service/metrics/histogram.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric {
    const char *name; /* whole: "kiln_clients" */
    enum metric_type type;
    const char *labels; /* names, separated by blanks; "" */
    const char *help;
};

#define EXPOSITION_LABELS_MAX 3

/* The lines before a family's samples. */
void exposition_begin(struct buffer *out, const struct metric *metric);
/* One sample; |values| are of the metric's labels, in their order; NULL where there are none. */
void exposition_number(struct buffer *out, const struct metric *metric, const char *const *values,
                       uint64_t number);
/* In seconds, of microseconds. */
void exposition_micros(struct buffer *out, const struct metric *metric, const char *const *values,
                       uint64_t micros);
struct exposition_range { /* exponents of the buckets' ends, in nanoseconds: first, first + step */
    unsigned first, last, step;
};
/* Buckets, sum and count. */
void exposition_histogram(struct buffer *out, const struct metric *metric,
                          const char *const *values, const struct histogram *histogram,
                          const struct exposition_range *range);
