/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_generic_parts.h"

#include "engine/solver/geometry.h"

uint64_t generic_classes(const struct problem *p)
{
    return p->direction != DIRECTION_BACKWARD_DATA
               ? 1
               : (uint64_t)p->stride.d * p->stride.h * p->stride.w;
}

struct generic_product generic_product_of(const struct problem *p)
{
    struct extent out = problem_output(p), f = p->filter;
    uint64_t c = p->c / p->groups, k = p->k / p->groups;
    uint64_t pixels = (uint64_t)p->n * out.d * out.h * out.w, taps = (uint64_t)f.d * f.h * f.w;
    switch (p->direction) {
    case DIRECTION_FORWARD: return (struct generic_product){ k, pixels, c * taps };
    case DIRECTION_BACKWARD_DATA:
        return (struct generic_product){ c,
                                         p->n * ceil_div(p->in.d, p->stride.d) *
                                             ceil_div(p->in.h, p->stride.h) *
                                             ceil_div(p->in.w, p->stride.w),
                                         k * taps };
    default: return (struct generic_product){ k, c * taps, pixels };
    }
}

void generic_add_argument(struct solution_kernel *kernel, enum argument_kind kind, uint64_t value)
{
    kernel->arguments[kernel->argument_count++] = (struct solution_argument){ kind, value };
}

void generic_add_number(struct solution_kernel *kernel, uint32_t value)
{
    generic_add_argument(kernel, ARGUMENT_U32, value);
}

static void add_extent(struct solution_kernel *kernel, struct extent e)
{
    generic_add_number(kernel, e.d);
    generic_add_number(kernel, e.h);
    generic_add_number(kernel, e.w);
}

/* For a below 2^31, the quotient of a and |size| is a * factor >> shift.  With |factor| rounded up
 * from 2^shift / size, the product is too large by less than a / 2^shift < 1 / size of a quotient,
 * so it does not reach the next whole number.  |factor| is below 2^32. */
struct divisor {
    uint32_t factor, shift;
};

static struct divisor divisor_of(uint32_t size)
{
    uint32_t bits = 0;
    while ((uint64_t)1 << bits < size)
        bits++;
    return (struct divisor){ (uint32_t)ceil_div((uint64_t)1 << (31 + bits), size), 31 + bits };
}

static void add_divisors(struct solution_kernel *kernel, struct extent out)
{
    struct divisor d = divisor_of(out.d), h = divisor_of(out.h), w = divisor_of(out.w);
    add_extent(kernel, (struct extent){ d.factor, h.factor, w.factor });
    generic_add_number(kernel, d.shift | h.shift << 8 | w.shift << 16);
}

void generic_add_sizes(struct solution_kernel *kernel, const struct problem *p)
{
    generic_add_number(kernel, p->n);
    generic_add_number(kernel, p->c / p->groups);
    generic_add_number(kernel, p->k / p->groups);
    generic_add_number(kernel, p->groups);
    add_extent(kernel, p->in);
    add_extent(kernel, problem_output(p));
    add_extent(kernel, p->filter);
    add_extent(kernel, p->pad);
    add_extent(kernel, p->stride);
    add_extent(kernel, p->dilation);
    if (p->direction == DIRECTION_BACKWARD_DATA)
        add_extent(kernel, (struct extent){ geometry_tap_step(p->stride.d, p->dilation.d),
                                            geometry_tap_step(p->stride.h, p->dilation.h),
                                            geometry_tap_step(p->stride.w, p->dilation.w) });
    else
        add_divisors(kernel, problem_output(p));
}
