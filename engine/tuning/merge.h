/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Merging two measurements of the same solver: statistics decide, never the order of arrival.
 *
 * Threading  pure functions
 *
 *   - A measurement with known samples wins over an imported one without statistics.
 *   - Measurements from the same setting (kind of device, driver, toolchain) are pooled if their
 *     medians differ by no more than the sum of their spreads.  Median and spread become those of
 *     all samples.  If the result is not finite, the existing measurement stays and a conflict is
 *     reported.
 *   - Otherwise they contradict each other, which is reported as a conflict.  More samples win;
 *     then the smaller spread relative to its median; then the newer one.
 *   - Of two without statistics, find keeps the faster and perf the existing one.  It is a conflict
 *     if find's times differ by more than 5 %, or if perf's parameters differ at all.
 *   - Perf entries with different parameters compete, and so do find entries of one algorithm with
 *     different solvers (old dialect).  The faster median wins if the two do not overlap, otherwise
 *     the one with more samples.
 */
#include "engine/tuning/tuning_db.h"

#define MERGE_SAMPLES_MAX 1000000u

enum merge_result {
    MERGE_SAME,   /* nothing to do: equal in every relevant field */
    MERGE_KEPT,   /* the existing measurement wins */
    MERGE_TAKEN,  /* the new measurement wins */
    MERGE_POOLED, /* pooled: |measured| is of all samples; for find, |values| still has the old
                   * time */
};

struct merge {
    enum merge_result result;
    bool is_conflict;
    char why[256]; /* for a conflict: both times, and what decided */
};

/* |into| becomes the result.  It borrows from |from| what it takes over, including the id.  Both
 * must have the same id or, for find, the same solver. */
struct merge measurement_merge(enum tuning_kind kind, struct tuning_row *into,
                               const struct tuning_row *from);
/* Whether both were measured on the same kind of device, with the same driver and toolchain. */
bool merge_is_same_setting(const struct tuning_row *a, const struct tuning_row *b);
