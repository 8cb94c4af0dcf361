/* SPDX-License-Identifier: MIT */
#include "cli/driver/rounding.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Unit roundoff of 32-bit floating point. */
#define FLOAT_UNIT 0x1p-24
/* Standard deviations that no element is off by: one in 10^13 of a normal distribution is. */
#define DEVIATIONS 8.0

/* Of y, along one axis. */
static uint64_t output_size(const struct kiln_problem *p, int axis)
{
    uint64_t window = (uint64_t)p->dilation[axis] * (p->filter[axis] - 1) + 1;
    return (p->in[axis] + 2 * (uint64_t)p->pad[axis] - window) / p->stride[axis] + 1;
}

/* Square tiles of y, all images'. */
static double tiles_of(const struct kiln_problem *p, uint32_t tile)
{
    double rows = ceil((double)output_size(p, 1) / tile);
    return p->n * rows * ceil((double)output_size(p, 2) / tile);
}

/* Products that the problem sums up for one element, at most. */
static double terms_of(const struct kiln_problem *p)
{
    double taps = (double)p->filter[0] * p->filter[1] * p->filter[2], outputs = p->n;
    for (int i = 0; i < 3; i++)
        outputs *= (double)output_size(p, i);
    switch (p->direction) {
    case KILN_FORWARD: return taps * (p->c / p->groups);
    case KILN_BACKWARD_DATA: return taps * (p->k / p->groups);
    default: return outputs;
    }
}

/*
 * Sums of products.  A sum of n products passes n roundings (one product, n - 1 additions; with a
 * fused multiply-add n in all), each off by at most u = 2^-24 relative, whatever the order:
 *     |error| <= ((1 + u)^n - 1) * sum|a b|                           (always)
 *     |error| <= (exp(8 sqrt(n) u + n u^2 / (1 - u)) - 1) * sum|a b|  (but for one in 10^13)
 * the second by Higham and Mary, "A new approach to probabilistic rounding error analysis" (2019).
 * The smaller one holds from n = 64 on as the second.  Where every product is a multiple of
 * |quantum| and sum|a b| < 2^24 quanta, no partial sum needs rounding: the error is 0.
 * One rounding more is allowed for a solver that adds a partial sum kept in 32 bits.
 */
static struct rounding of_sums(const struct kiln_problem *p, double quantum)
{
    double n = terms_of(p) + 1;
    double always = expm1(n * log1p(FLOAT_UNIT));
    double nearly = expm1(DEVIATIONS * sqrt(n) * FLOAT_UNIT + n * FLOAT_UNIT * FLOAT_UNIT);
    return (struct rounding){ .relative = always < nearly ? always : nearly,
                              .exact_below = quantum > 0 ? quantum * 0x1p24 : -1 };
}

/*
 * Winograd's F(m x m, 3 x 3): y = A' [ sum over C channels of (G w G') . (B' x B) ] A.  The numbers
 * between are larger than the result and cancel in the end, so that an error there counts for more
 * than the magnitude of the result says.  Operands of random signs below 1 make each transformed
 * product at point (k, l) one of standard deviation at most s(k) s(l), s(k) = |B' row k| |G row k|
 * (2-norms; rows of one matrix times rows of the other).  Summing C of them rounds by at most
 * u sqrt(j) s s at the j-th addition, u s s C / sqrt(2) in all; the two transforms before it and
 * the one behind, some twenty additions each, by less than u s s 8 sqrt(C).  A' gathers that with
 * weights a(p, k): along an axis by the norm of a(p, k) s(k), over both by its square, which is
 *     m = 2, points 0, 1, -1, infinity                              5.0  at every p
 *     m = 4, points 0, +-sqrt(1/2), +-sqrt(2), infinity            21.4  at the outermost p
 *
 * Backward weights, F(3 x 3, m x m): w = G' [ sum over T tiles of (A y A') . (B' x B) ] G.  The
 * same with s(k) = |B' row k| |A row k|, gathered by g(k, p); the squares are 4.0 and 23.9.
 */
static struct rounding of_winograd(const struct kiln_problem *p, const char *config)
{
    bool is_small = config && strtoul(config, NULL, 10) == 2;
    double terms = p->direction == KILN_FORWARD ? p->c / p->groups : p->k / p->groups;
    double gain = is_small ? 5.0 : 21.4;
    if (p->direction == KILN_BACKWARD_WEIGHTS) {
        terms = tiles_of(p, config && !is_small ? 4 : 2);
        gain = is_small ? 4.0 : 23.9;
    }
    double steps = terms / sqrt(2) + 8 * sqrt(terms);
    return (struct rounding){ .absolute = DEVIATIONS * FLOAT_UNIT * gain * steps,
                              .exact_below = -1 };
}

struct rounding rounding_of(const struct kiln_problem *problem, const char *solver,
                            const char *config, double quantum)
{
    if (solver && strcmp(solver, "ConvWinograd") == 0)
        return of_winograd(problem, config);
    return of_sums(problem, quantum);
}

double rounding_bound(const struct rounding *rounding, double magnitude)
{
    if (magnitude <= rounding->exact_below)
        return 0;
    return rounding->relative * magnitude + rounding->absolute;
}
