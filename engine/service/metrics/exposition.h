/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Prometheus' text exposition format, version 0.0.4.
 *
 * Role       writes HELP and TYPE of a metric, then its samples; escapes texts
 * Ownership  borrows the buffer and the metric's texts
 * Threading  one thread
 *
 * If memory runs out, the buffer is marked as failed, and further writes do nothing.
 */
#include "common/base/bytes.h"
#include "engine/service/metrics/histogram.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric {
    const char *name;
    enum metric_type type;
    const char *labels; /* separated by spaces; "" if there are none */
    const char *help;
};

#define EXPOSITION_LABELS_MAX 3

void exposition_begin(struct buffer *out, const struct metric *metric);
/* |values| are the labels' values in order; NULL if the metric has no labels. */
void exposition_number(struct buffer *out, const struct metric *metric, const char *const *values,
                       uint64_t number);
void exposition_micros(struct buffer *out, const struct metric *metric, const char *const *values,
                       uint64_t micros);
struct exposition_range { /* buckets end at 2^first, 2^(first + step), ..., 2^last ns */
    unsigned first, last, step;
};
void exposition_histogram(struct buffer *out, const struct metric *metric,
                          const char *const *values, const struct histogram *histogram,
                          const struct exposition_range *range);
