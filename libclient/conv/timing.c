/* SPDX-License-Identifier: MIT */
#include "libclient/conv/timing.h"

#include <stdlib.h>

/* A sample shorter than this is of several launches: clocks of GPUs tick every half microsecond or
 * every microsecond, and an event costs about as much. */
#define SAMPLE_MIN_MS 0.25
#define LAUNCHES_MAX 32u
/* What the events of a launch that is alone may show beside its own time: the way to the device.
 * Who is hopeless by less costs next to nothing to be timed. */
#define ALONE_MS 0.05
/* Tukey's fences for what is far out: so many widths of the middle half beyond it.  And at least so
 * much of the median, where most samples are alike to the last tick. */
#define FENCE 3.0
#define FENCE_MIN 0.01

static int compare(const void *left, const void *right)
{
    double x = *(const double *)left, y = *(const double *)right;
    return (x > y) - (x < y);
}

/* Of sorted samples, between two of them in proportion. */
static double quantile(const double *sorted, unsigned count, double part)
{
    double at = part * (count - 1);
    unsigned below = (unsigned)at;
    unsigned above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

struct timing timing_of(double *samples, unsigned count)
{
    qsort(samples, count, sizeof(*samples), compare);
    double low = quantile(samples, count, 0.25), high = quantile(samples, count, 0.75);
    double least = FENCE_MIN * quantile(samples, count, 0.5);
    double fence = FENCE * (high - low) > least ? FENCE * (high - low) : least;
    unsigned first = 0, end = count;
    while (samples[first] < low - fence)
        first++;
    while (samples[end - 1] > high + fence)
        end--;
    const double *kept = samples + first;
    unsigned left = end - first;
    return (struct timing){
        .median_ms = quantile(kept, left, 0.5),
        .spread_ms = (quantile(kept, left, 0.75) - quantile(kept, left, 0.25)) / 2,
        .samples = left,
        .outliers = count - left,
    };
}

static unsigned launches_for(double one_ms)
{
    if (one_ms >= SAMPLE_MIN_MS)
        return 1;
    if (one_ms * LAUNCHES_MAX <= SAMPLE_MIN_MS)
        return LAUNCHES_MAX;
    return (unsigned)(SAMPLE_MIN_MS / one_ms) + 1;
}

static struct timing cut_short(double ms)
{
    return (struct timing){ .median_ms = ms, .samples = 1, .is_cut_short = true };
}

enum kiln_code timing_take(const struct timing_source *source, const struct timing_limits *limits,
                           struct timing *ret_timing, struct kiln_err *err)
{
    double samples[TIMING_SAMPLES_MAX], first_ms, warm_up_ms, spent_ms = 0, hopeless_ms;
    unsigned wanted = limits->samples < TIMING_SAMPLES_MAX ? limits->samples : TIMING_SAMPLES_MAX;
    hopeless_ms = limits->hopeless_ms > 0 ? limits->hopeless_ms + ALONE_MS : __DBL_MAX__;
    /* The first run may load, or even compile, and wakes the clocks up: it says nothing. */
    enum kiln_code rc = source->launch(source->context, 1, &warm_up_ms, err);
    if (!rc)
        rc = source->launch(source->context, 1, &first_ms, err);
    if (rc)
        return rc;
    if (first_ms > hopeless_ms) {
        *ret_timing = cut_short(first_ms);
        return KILN_OK;
    }
    unsigned launches = launches_for(first_ms), count = 0;
    if (launches == 1) {
        samples[count++] = first_ms;
        spent_ms = first_ms;
    }
    while (count == 0 || (count < wanted && spent_ms < limits->most_ms)) {
        double ms;
        rc = source->launch(source->context, launches, &ms, err);
        if (rc)
            return rc;
        samples[count++] = ms / launches;
        spent_ms += ms;
    }
    *ret_timing = timing_of(samples, count);
    return KILN_OK;
}
