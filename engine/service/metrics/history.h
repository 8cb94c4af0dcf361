/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Samples of the counters over the weeks.
 *
 * Role       every HISTORY_EVERY_S seconds, writes the counts since the last sample to the store,
 *            unless all are 0.  Counts that could not be written become part of the next sample
 * Threading  the engine's thread; the writing is a task
 */
#include "engine/store/kernel_metrics.h"

#define HISTORY_SUMS \
    HISTORY_store_bytes /* the number of columns that are counters; the others are sizes */
#define HISTORY_EVERY_S 300u
#define HISTORY_KEPT_S (28u * 86400u)

struct engine;

struct history {
    uint64_t written[HISTORY_COLUMNS]; /* sums of all samples so far */
    uint64_t since;                    /* end of the last sample: seconds since the epoch */
    uint64_t at_ns;                    /* when the next sample is due */
    bool is_busy;
};

/* Begins the first sample now. */
void history_begin(struct engine *e);
/* Writes a sample if one is due; |force| writes one anyway. */
void history_write(struct engine *e, bool force);
/* The counts since the last sample, without the store's sizes. */
struct kernel_sample history_unwritten(const struct engine *e);
