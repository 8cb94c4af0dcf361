/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Merges two measurements of the same solver. The statistics decide which one counts, never the
 * order in which they arrive.
 *
 * Threading  pure functions
 *
 *   - A measurement with known samples wins over an imported one without statistics.
 *   - Measurements from the same setting (kind of device, driver, toolchain) are pooled if their
 *     medians differ by no more than the sum of their spreads. Median and spread become those of
 *     all samples. If the result is not finite, the existing measurement stays and a conflict is
 *     reported.
 *   - Of two measurements that are not pooled, the one with more samples wins; if these are equal,
 *     the one with the smaller spread relative to its median; if these are equal, too, the newer
 *     one. It is a conflict if the medians differ by more than the sum of the spreads.
 *   - If neither has statistics, a find record keeps the faster one, and a perf record keeps the
 *     existing one. It is a conflict if the times in find records differ by more than 5 %, or if
 *     the parameters in perf records differ at all.
 *   - Perf entries with different parameters compete, and so do find entries with the same id and
 *     different solvers (FindDb's old dialect, where the id is an algorithm). If their times, with
 *     the spreads, do not overlap, the faster one wins; otherwise the one with more samples.
 */
#include "engine/tuning/tuning_db.h"

#define MERGE_SAMPLES_MAX 1000000u

enum merge_result {
    MERGE_SAME, /* equal in every relevant field */
    MERGE_KEPT,
    MERGE_TAKEN,
    MERGE_POOLED, /* |measured| is pooled; in find entries, |values| still has the old time */
};

struct merge {
    enum merge_result result;
    bool is_conflict;
    char why[256]; /* if is_conflict: both times, and why one of them won */
};

/* Merges |from| into |into|. |into| then borrows texts from |from|. Both must have the same id or,
 * in find records, the same solver. */
struct merge measurement_merge(enum tuning_kind kind, struct tuning_row *into,
                               const struct tuning_row *from);
bool merge_is_same_setting(const struct tuning_row *a, const struct tuning_row *b);
