/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Samples of the counters over the weeks.
 *
 * Role       every HISTORY_EVERY_S seconds what was counted since the sample before goes into the
 *            store, unless nothing was; what could not be written is part of the next one
 * Threading  the engine's thread; the writing is a task
 */
#include "engine/store/kernel_figures.h"

#define HISTORY_SUMS HISTORY_store_bytes /* as many columns count; the others are sizes */
#define HISTORY_EVERY_S 300u
#define HISTORY_KEPT_S (28u * 86400u)

struct engine;

struct history {
    uint64_t written[HISTORY_COLUMNS]; /* what the samples so far add up to */
    uint64_t since;                    /* the end of the last: seconds since the epoch */
    uint64_t at_ns;                    /* when the next is due */
    bool is_busy;
};

/* From now on. */
void history_begin(struct engine *e);
/* Writes a sample if that is due; |force| writes it anyway. */
void history_write(struct engine *e, bool force);
/* What no sample has yet; without the store's sizes. */
struct kernel_sample history_unwritten(const struct engine *e);
