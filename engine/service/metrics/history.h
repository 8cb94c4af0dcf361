/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Samples of the counters over the last weeks.
 *
 * Role       every HISTORY_EVERY_S seconds, writes the counts since the last sample to the store,
 *            if any kernel was fetched, compiled or evicted
 * Ownership  the engine owns the struct
 * Threading  the engine's thread; the writing is a task
 */
#include "engine/store/kernel_metrics.h"

/* Number of columns that are counters; the columns after them are sizes. */
#define HISTORY_SUMS HISTORY_store_bytes
#define HISTORY_EVERY_S 300u
#define HISTORY_KEPT_S (28u * 86400u)

struct engine;
struct history;

KILN_MUST_CHECK enum kiln_code history_create(struct history **ret_history, struct kiln_err *err);
void history_destroy(struct history *history);
/* If |force| is not set, writes a sample only if one is due. */
void history_write(struct engine *e, bool force);
/* Returns the counts since the last sample, without the store's sizes. */
struct kernel_sample history_unwritten(const struct engine *e);
/* Returns the sum over the samples written since the daemon started. */
uint64_t history_written(const struct engine *e, int column);
