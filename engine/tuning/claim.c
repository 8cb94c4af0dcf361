/* SPDX-License-Identifier: MIT */
#include "engine/tuning/claim.h"

#include "engine/miopen/problem_key.h"

/* Upper limits for the speed of any GPU: 20 TB/s and 5 PFLOP/s.  The fastest GPUs of 2026 reach at
 * most half of them (8 TB/s, and 2.5 PFLOP/s in fp8). */
#define BYTES_A_MS 20e9
#define FLOPS_A_MS 5e12
/* Limits of a credible claim: measuring one solver takes at most an hour, and one launch at least a
 * microsecond. */
#define MEASURING_MAX_MS 3.6e6
#define SAMPLE_MIN_MS 0.001
/* Maximum number of taps (positions of the filter along one axis) that are counted. If a filter has
 * more, only those in the middle are counted, and the counts are lower bounds. */
#define TAPS_MAX 64u

struct axis {
    int64_t in, filter, pad, stride, dilation, out;
};

struct reach {       /* along one axis */
    double products; /* pairs of an output and a tap whose input is not in the padding */
    double taps;     /* taps that occur in at least one of these pairs */
    /* Lower bound for the number of different inputs in these pairs, and of different outputs. */
    double points;
};

static int64_t outputs_of_tap(const struct axis *a, int64_t tap)
{
    int64_t offset = tap * a->dilation - a->pad; /* position of this tap's input for output 0 */
    int64_t first = offset < 0 ? (-offset + a->stride - 1) / a->stride : 0;
    int64_t end = offset >= a->in ? 0 : (a->in - 1 - offset) / a->stride + 1;
    end = end < a->out ? end : a->out;
    return end > first ? end - first : 0;
}

static struct reach reach_of(const struct axis *a)
{
    struct reach reach = { 0 };
    int64_t first = a->filter > TAPS_MAX ? (a->filter - TAPS_MAX) / 2 : 0;
    int64_t end = a->filter > TAPS_MAX ? first + TAPS_MAX : a->filter;
    for (int64_t tap = first; tap < end; tap++) {
        double outputs = (double)outputs_of_tap(a, tap);
        reach.products += outputs;
        reach.taps += outputs > 0;
        reach.points = outputs > reach.points ? outputs : reach.points;
    }
    return reach;
}

double claim_floor_ms(const struct problem *p)
{
    const struct extent out = problem_output(p);
    const struct axis axes[] = {
        { p->in.d, p->filter.d, p->pad.d, p->stride.d, p->dilation.d, out.d },
        { p->in.h, p->filter.h, p->pad.h, p->stride.h, p->dilation.h, out.h },
        { p->in.w, p->filter.w, p->pad.w, p->stride.w, p->dilation.w, out.w },
    };
    struct reach all = { 1, 1, 1 };
    for (size_t i = 0; i < sizeof(axes) / sizeof(axes[0]); i++) {
        struct reach one = reach_of(&axes[i]);
        all.products *= one.products;
        all.taps *= one.taps;
        all.points *= one.points;
    }
    double depth = p->c / p->groups;
    double flops = 2.0 * p->n * p->k * depth * all.products;
    double elements = all.points * p->n * ((double)p->c + p->k) + p->k * depth * all.taps;
    double bytes = elements * (double)data_type_size((enum data_type)p->type);
    double by_flops = flops / FLOPS_A_MS, by_bytes = bytes / BYTES_A_MS;
    return by_flops > by_bytes ? by_flops : by_bytes;
}

static enum kiln_code check_floor(double floor_ms, double ms, struct kiln_err *err)
{
    if (ms >= floor_ms)
        return KILN_OK;
    return kiln_fail(
        err, KILN_INVALID,
        "a time of %.3g ms is not possible: at 20 TB/s and 5 PFLOP/s the problem takes "
        "%.3g ms; state the time of one launch, in milliseconds",
        ms, floor_ms);
}

enum kiln_code claim_check(const struct problem *problem, const struct tuning_measurement *measured,
                           struct kiln_err *err)
{
    double sample_ms = measured->median_ms > SAMPLE_MIN_MS ? measured->median_ms : SAMPLE_MIN_MS;
    if (measured->samples == 0)
        return KILN_OK;
    if (sample_ms * measured->samples > MEASURING_MAX_MS && measured->samples > 1)
        return kiln_fail(err, KILN_INVALID,
                         "%u samples with a median of %.3g ms take more than an hour: state the "
                         "number of samples that were taken",
                         (unsigned)measured->samples, measured->median_ms);
    if (measured->samples > 1 && measured->spread_ms <= 0)
        return kiln_fail(err, KILN_INVALID,
                         "%u samples have a spread of 0: state half the distance between the 25th "
                         "and 75th percentiles, and at least the resolution of the clock",
                         (unsigned)measured->samples);
    return check_floor(problem ? claim_floor_ms(problem) : 0, measured->median_ms, err);
}

enum kiln_code claim_check_time(double floor_ms, double ms, struct kiln_err *err)
{
    return ms > 0 ? check_floor(floor_ms, ms, err) : KILN_OK;
}

bool claim_problem(enum tuning_kind kind, struct bytes key, struct problem *ret_problem)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    if (kind == TUNING_PERF && perf_key_parse(key, ret_problem, &ignored) == KILN_OK)
        return true;
    return find_key_parse(key, ret_problem, &ignored) == KILN_OK;
}
