/* SPDX-License-Identifier: MIT */
#include "libclient/conv/timing.h"

#include <stdlib.h>

/* Minimum length of a sample.  For a shorter kernel, one sample covers several launches: the clocks
 * of GPUs tick every 0.5 or 1 µs, and recording an event takes about as long. */
#define SAMPLE_MIN_MS 0.25
#define LAUNCHES_MAX 32u
/* Minimum spread that is reported.  The device's clock is too coarse to show a smaller spread, and
 * kilnd rejects a spread of 0, because no real measurement has it. */
#define SPREAD_MIN_MS 1e-6
/* Added to |hopeless_ms|.  Sending a launch to the device takes time, so the events around a single
 * launch are further apart than the kernel takes. */
#define ALONE_MS 0.05
/* A kernel that is slower than |slower_ms| in each of this many first samples gets no more. */
#define SAMPLES_OF_SLOWER 5u
/* Tukey's fences: samples more than FENCE interquartile ranges outside the quartiles are outliers.
 * The distance is at least FENCE_MIN times the median, because with a coarse clock most samples may
 * be equal. */
#define FENCE 3.0
#define FENCE_MIN 0.01

static int compare_doubles(const void *left, const void *right)
{
    double x = *(const double *)left, y = *(const double *)right;
    return (x > y) - (x < y);
}

static double quantile_of(const double *sorted, unsigned count, double part)
{
    double at = part * (count - 1);
    unsigned below = (unsigned)at;
    unsigned above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

struct timing timing_of(double *samples, unsigned count)
{
    qsort(samples, count, sizeof(*samples), compare_doubles);
    double low = quantile_of(samples, count, 0.25), high = quantile_of(samples, count, 0.75);
    double min_fence = FENCE_MIN * quantile_of(samples, count, 0.5);
    double fence = FENCE * (high - low) > min_fence ? FENCE * (high - low) : min_fence;
    unsigned first = 0, end = count;
    while (samples[first] < low - fence)
        first++;
    while (samples[end - 1] > high + fence)
        end--;
    const double *kept = samples + first;
    unsigned left = end - first;
    double spread = (quantile_of(kept, left, 0.75) - quantile_of(kept, left, 0.25)) / 2;
    return (struct timing){
        .median_ms = quantile_of(kept, left, 0.5),
        .spread_ms = left > 1 && spread < SPREAD_MIN_MS ? SPREAD_MIN_MS : spread,
        .samples = left,
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

static double fastest_of(const double *samples, unsigned count)
{
    double fastest = samples[0];
    for (unsigned i = 1; i < count; i++)
        fastest = samples[i] < fastest ? samples[i] : fastest;
    return fastest;
}

static bool is_slower(const struct timing_limits *limits, const double *samples, unsigned count)
{
    return limits->slower_ms > 0 && count >= SAMPLES_OF_SLOWER &&
           fastest_of(samples, count) > limits->slower_ms;
}

enum kiln_code timing_take(const struct timing_source *source, const struct timing_limits *limits,
                           struct timing *ret_timing, struct kiln_err *err)
{
    double samples[TIMING_SAMPLES_MAX], first_ms, warm_up_ms, spent_ms = 0, hopeless_ms;
    unsigned needed = limits->samples < TIMING_SAMPLES_MAX ? limits->samples : TIMING_SAMPLES_MAX;
    hopeless_ms = limits->hopeless_ms > 0 ? limits->hopeless_ms + ALONE_MS : __DBL_MAX__;
    /* The first run is not counted: it may load or even compile code, and the GPU's clock is still
     * rising. */
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
    while (count == 0 ||
           (count < needed && spent_ms < limits->limit_ms && !is_slower(limits, samples, count))) {
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
