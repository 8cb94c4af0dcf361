/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Two measurements of the same solver: which counts, by statistics, never by who came last.
 *
 * Threading  pure functions
 *
 *   - Anything measured (samples known) wins over anything imported without statistics.
 *   - Measured in the same setting (kind of device, driver, toolchain), and medians no further
 *     apart than their spreads together: pooled.  Median and spread become those of all samples;
 *     where that is no finite number, what is there stays, and it is said as a conflict.
 *   - Else they contradict each other: more samples count; as many, the smaller spread relative to
 *     its median; as much, the newer.  Said as a conflict.
 *   - Two without statistics: of find the faster, of perf the one that is there; a conflict when
 *     find's times differ by more than a twentieth, or perf's parameters at all.
 *   - Perf entries with different parameters, and find entries of one algorithm but different
 *     solvers (old dialect), compete: the faster median wins when the two do not overlap, else the
 *     one with more samples.
 */
#include "engine/tuning/tuning_db.h"

#define MERGE_SAMPLES_MAX 1000000u

enum merge_result {
    MERGE_SAME,   /* nothing to do: equal in all that counts */
    MERGE_KEPT,   /* what was there counts */
    MERGE_TAKEN,  /* what came counts */
    MERGE_POOLED, /* both: |measured| is of all samples; of find, |values| still states the old time
                   */
};

struct merge {
    enum merge_result result;
    bool is_conflict;
    char why[256]; /* of a conflict: both figures, and what decided */
};

/* |into| becomes what counts; it borrows from |from| what it takes over, its id too.  Both have the
 * same id or, of find, the same solver. */
struct merge measurement_merge(enum tuning_kind kind, struct tuning_row *into,
                               const struct tuning_row *from);
/* Measured on the same kind of device, with the same driver and toolchain. */
bool merge_is_same_setting(const struct tuning_row *a, const struct tuning_row *b);
