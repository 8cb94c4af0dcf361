/* SPDX-License-Identifier: MIT */
#include "engine/tuning/merge.h"

#include "engine/tuning/tuning_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Maximum relative difference of two imported times that is not a conflict, because two runs of the
 * same benchmark often differ by this much. */
#define IMPORTED_TOLERANCE 0.05

struct side {
    const struct tuning_row *row;
    double time_ms;
    uint32_t samples;
    struct bytes solver; /* only in find entries; empty if the entry is malformed */
};

/* Returns whether two find entries with the same id have different solvers. This can only happen in
 * FindDb's old dialect, where the id is an algorithm. */
static bool differ_in_solver(const struct side *a, const struct side *b)
{
    return a->solver.size && b->solver.size && !bytes_equal(a->solver, b->solver);
}

static bool are_alternatives(enum tuning_kind kind, const struct side *a, const struct side *b)
{
    return kind == TUNING_PERF ? !bytes_equal(a->row->values, b->row->values)
                               : differ_in_solver(a, b);
}

static struct side side_of(enum tuning_kind kind, const struct tuning_row *row)
{
    struct tuning_entry entry;
    bool measured = row->measured.samples > 0 && row->measured.median_ms > 0;
    struct side s = { .row = row,
                      .time_ms = measured ? row->measured.median_ms : 0,
                      .samples = measured ? row->measured.samples : 0 };
    if (kind != TUNING_FIND || !tuning_row_entry(row, &entry))
        return s;
    s.solver = entry.solver;
    s.time_ms = measured ? s.time_ms : entry.time_ms;
    return s;
}

static bool is_same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

bool merge_is_same_setting(const struct tuning_row *a, const struct tuning_row *b)
{
    const struct tuning_origin *x = &a->measured.origin, *y = &b->measured.origin;
    return is_same_text(x->device, y->device) && is_same_text(x->driver, y->driver) &&
           is_same_text(x->toolchain, y->toolchain);
}

static bool times_overlap(const struct side *a, const struct side *b)
{
    return fabs(a->time_ms - b->time_ms) <= a->row->measured.spread_ms + b->row->measured.spread_ms;
}

static bool is_equal(const struct tuning_row *a, const struct tuning_row *b)
{
    const struct tuning_measurement *x = &a->measured, *y = &b->measured;
    return bytes_equal(a->values, b->values) && x->samples == y->samples &&
           x->median_ms == y->median_ms && x->spread_ms == y->spread_ms &&
           x->measured_at == y->measured_at && merge_is_same_setting(a, b);
}

/* Uses long double, because the square of a large double may overflow. */
static long double variance_around(const struct tuning_measurement *m, double median)
{
    long double distance = (long double)m->median_ms - median, spread = m->spread_ms;
    return spread * spread + distance * distance;
}

/* Estimates median and spread as if all samples had been taken together. The distance between the
 * two medians widens the spread. Returns false, without a change, if the result is not finite. */
static bool pool_samples(struct tuning_row *into, const struct tuning_row *from)
{
    struct tuning_measurement *x = &into->measured;
    const struct tuning_measurement *y = &from->measured;
    double all = (double)x->samples + y->samples;
    double share = x->samples / all;
    double median = share * x->median_ms + (1 - share) * y->median_ms;
    double spread = (double)sqrtl(share * variance_around(x, median) +
                                  (1 - share) * variance_around(y, median));
    if (!isfinite(median) || !isfinite(spread))
        return false;
    x->median_ms = median;
    x->spread_ms = spread;
    x->samples = all < MERGE_SAMPLES_MAX ? (uint32_t)all : MERGE_SAMPLES_MAX;
    if (y->measured_at > x->measured_at) {
        x->measured_at = y->measured_at;
        x->uid = y->uid;
        x->origin = y->origin;
    }
    return true;
}

static double relative_spread(const struct side *s)
{
    return s->row->measured.spread_ms / s->time_ms;
}

static bool second_counts(const struct side *a, const struct side *b, const char **ret_reason)
{
    *ret_reason = "more samples";
    if (a->samples != b->samples)
        return b->samples > a->samples;
    *ret_reason = "smaller spread";
    if (relative_spread(a) != relative_spread(b))
        return relative_spread(b) < relative_spread(a);
    *ret_reason = "newer";
    return b->row->measured.measured_at > a->row->measured.measured_at;
}

static struct merge decide_merge(bool take, bool is_conflict, const char *reason,
                                 const struct side *a, const struct side *b)
{
    struct merge merge = { .result = take ? MERGE_TAKEN : MERGE_KEPT, .is_conflict = is_conflict };
    if (is_conflict)
        snprintf(merge.why, sizeof(merge.why),
                 "%.6g ms (%u samples, spread %.3g) against %.6g ms (%u samples, spread %.3g): the "
                 "%s counts, %s",
                 a->time_ms, (unsigned)a->samples, a->row->measured.spread_ms, b->time_ms,
                 (unsigned)b->samples, b->row->measured.spread_ms, take ? "second" : "first",
                 reason);
    return merge;
}

static struct merge merge_imported(enum tuning_kind kind, const struct side *a,
                                   const struct side *b)
{
    if (kind == TUNING_PERF)
        return decide_merge(false, !bytes_equal(a->row->values, b->row->values),
                            "it existed before", a, b);
    double larger = a->time_ms > b->time_ms ? a->time_ms : b->time_ms;
    bool differ = fabs(a->time_ms - b->time_ms) > IMPORTED_TOLERANCE * larger &&
                  !are_alternatives(kind, a, b);
    return decide_merge(b->time_ms < a->time_ms, differ, "faster, and neither has statistics", a,
                        b);
}

static struct merge merge_measured(enum tuning_kind kind, struct tuning_row *into,
                                   const struct side *a, const struct side *b)
{
    const char *reason = NULL;
    bool competes = are_alternatives(kind, a, b);
    bool near = times_overlap(a, b);
    if (competes && !near)
        return decide_merge(b->time_ms < a->time_ms, false, "faster", a, b);
    bool pools = !competes && near && merge_is_same_setting(a->row, b->row);
    if (pools && pool_samples(into, b->row))
        return (struct merge){ .result = MERGE_POOLED };
    if (pools)
        return decide_merge(false, true, "they cannot be combined", a, b);
    bool take = second_counts(a, b, &reason);
    return decide_merge(take, !competes && !near, reason, a, b);
}

struct merge measurement_merge(enum tuning_kind kind, struct tuning_row *into,
                               const struct tuning_row *from)
{
    if (is_equal(into, from))
        return (struct merge){ .result = MERGE_SAME };
    struct tuning_row old = *into;
    const struct side a = side_of(kind, &old), b = side_of(kind, from);
    struct merge merge;
    if (!a.samples && !b.samples)
        merge = merge_imported(kind, &a, &b);
    else if (!a.samples || !b.samples)
        merge = decide_merge(b.samples > 0, false, "measured", &a, &b);
    else
        merge = merge_measured(kind, into, &a, &b);
    if (merge.result == MERGE_TAKEN) {
        into->id = from->id;
        into->values = from->values;
        into->measured = from->measured;
    }
    return merge;
}
