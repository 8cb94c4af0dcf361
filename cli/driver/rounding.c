/* SPDX-License-Identifier: MIT */
#include "cli/driver/rounding.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FLOAT_UNIT 0x1p-24
#define TF32_UNIT 0x1p-11
/* The bound, in standard deviations.  By Hoeffding's inequality, fewer than one error in 10^13 is
 * larger: the probability is at most 2 exp(-8 * 8 / 2). */
#define DEVIATIONS 8.0

static uint64_t output_size(const struct kiln_problem *p, int axis)
{
    uint64_t window = (uint64_t)p->dilation[axis] * (p->filter[axis] - 1) + 1;
    return (p->in[axis] + 2 * (uint64_t)p->pad[axis] - window) / p->stride[axis] + 1;
}

static double count_tiles(const struct kiln_problem *p, uint32_t tile)
{
    double rows = ceil((double)output_size(p, 1) / tile);
    return p->n * rows * ceil((double)output_size(p, 2) / tile);
}

static double count_terms(const struct kiln_problem *p)
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
 * Returns the bound for a plain sum of n products.  Each term passes at most n roundings: one for
 * the product and n - 1 for the additions, in any order.  With fused multiply-add, there are also n
 * in all.  Each rounding has a relative error of at most u = 2^-24.  Therefore
 *     |error| <= ((1 + u)^n - 1) * sum|a b|                           (always)
 *     |error| <= (exp(8 sqrt(n) u + n u^2 / (1 - u)) - 1) * sum|a b|  (except for one in 10^13)
 * The second bound is by Higham and Mary, "A new approach to probabilistic rounding error analysis"
 * (2019).  The function uses the smaller bound: from n = 64 on, the second.
 * If every product is a multiple of |quantum| and sum|a b| < 2^24 quanta, no partial sum needs
 * rounding, and the error is 0.
 * One more rounding is allowed for a solver that adds a partial sum stored in 32 bits.
 */
static struct rounding bound_sums(const struct kiln_problem *p, double quantum)
{
    double n = count_terms(p) + 1;
    double always = expm1(n * log1p(FLOAT_UNIT));
    double nearly = expm1(DEVIATIONS * sqrt(n) * FLOAT_UNIT + n * FLOAT_UNIT * FLOAT_UNIT);
    return (struct rounding){ .relative = always < nearly ? always : nearly,
                              .exact_below = quantum > 0 ? quantum * 0x1p24 : -1 };
}

/*
 * Returns the bound for sums of n products whose operands are first rounded to TF32.  With t =
 * 2^-11, a product a b then has an error of at most p |a b|, where p = 2 t + t^2.  Therefore, in
 * addition to the error of the sum,
 *     |error| <= p sum|a b|                   (always)
 *     |error| <= 8 p sqrt(sum|a b|)           (except for one in 10^13)
 * The second bound is Hoeffding's inequality, with sum|a b|^2 <= sum|a b| because operands are
 * below 1.  struct rounding is linear in the magnitude m.  So the function uses the tangent of the
 * root at m = n / 4, which is the mean for random operands: sqrt(m) <= (m / s + s) / 2 with
 * s = sqrt(n) / 2.  TF32 represents operands of at most 11 bits exactly, so for such operands the
 * result may still be exact.
 */
static struct rounding bound_tf32(const struct kiln_problem *p, double quantum)
{
    struct rounding r = bound_sums(p, quantum);
    double product = 2 * TF32_UNIT + TF32_UNIT * TF32_UNIT;
    double root = sqrt(count_terms(p)) / 2;
    if (root <= DEVIATIONS) {
        r.relative += product;
    } else {
        r.relative += DEVIATIONS * product / (2 * root);
        r.absolute = DEVIATIONS * product * root / 2;
    }
    return r;
}

static bool may_use_tf32(const struct kiln_problem *p, const char *solver)
{
    return p->allow_tf32 && p->type == KILN_FLOAT32 &&
           (!solver || strcmp(solver, "ConvImplicitGemm") == 0 ||
            strcmp(solver, "ConvGrouped") == 0);
}

/*
 * Returns the bound for Winograd's F(m x m, 3 x 3): y = A' [ sum over C channels of (G w G') . (B'
 * x B) ] A. Intermediate values are larger than the result and cancel at the end.  An intermediate
 * error therefore counts for more than the magnitude of the result suggests.
 *
 * The operands are below 1 and have random signs.  So the transformed product at point (k, l) has a
 * standard deviation of at most s(k) s(l), where s(k) = |B' row k| |G row k| (2-norms of the rows).
 * In the sum of C such products, the j-th addition rounds by at most u sqrt(j) s(k) s(l); in all
 * that is u s(k) s(l) C / sqrt(2).  The two transforms before the sum and the one after it have
 * about twenty additions each.  All three add less than 8 u s(k) s(l) sqrt(C).
 *
 * A' combines these errors with weights a(p, k).  Along one axis the factor is the norm of
 * a(p, k) s(k) over k, and over both axes it is the square of that norm:
 *     m = 2, points 0, 1, -1, infinity                              5.0  at every p
 *     m = 4, points 0, +-sqrt(1/2), +-sqrt(2), infinity            21.4  at the outermost p
 *
 * Backward weights are F(3 x 3, m x m): w = G' [ sum over T tiles of (A y A') . (B' x B) ] G.  The
 * derivation is the same with s(k) = |B' row k| |A row k| and weights g(k, p).  The squares are 4.0
 * and 23.9.
 */
static struct rounding bound_winograd(const struct kiln_problem *p, const char *config)
{
    bool is_small = config && strtoul(config, NULL, 10) == 2;
    double terms = p->direction == KILN_FORWARD ? p->c / p->groups : p->k / p->groups;
    double gain = is_small ? 5.0 : 21.4;
    if (p->direction == KILN_BACKWARD_WEIGHTS) {
        terms = count_tiles(p, config && !is_small ? 4 : 2);
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
        return bound_winograd(problem, config);
    if (may_use_tf32(problem, solver))
        return bound_tf32(problem, quantum);
    return bound_sums(problem, quantum);
}

double rounding_bound(const struct rounding *rounding, double magnitude)
{
    if (magnitude <= rounding->exact_below)
        return 0;
    return rounding->relative * magnitude + rounding->absolute;
}
