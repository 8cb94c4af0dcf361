/* SPDX-License-Identifier: MIT */
#include "engine/solver/geometry.h"

static bool fits(uint32_t in, uint32_t filter, uint32_t pad, uint32_t stride, uint32_t dilation)
{
    uint64_t window = (uint64_t)filter * dilation;
    return window < 1u << 30 && (uint64_t)in + 2 * (uint64_t)pad + stride < 1u << 30;
}

bool geometry_fits_30_bits(const struct problem *p)
{
    return fits(p->in.d, p->filter.d, p->pad.d, p->stride.d, p->dilation.d) &&
           fits(p->in.h, p->filter.h, p->pad.h, p->stride.h, p->dilation.h) &&
           fits(p->in.w, p->filter.w, p->pad.w, p->stride.w, p->dilation.w);
}

bool geometry_is_launchable(const struct target *target, uint64_t groups, uint64_t items)
{
    return groups <= INT32_MAX && (target->family != TARGET_AMDGPU || groups * items <= UINT32_MAX);
}

/* Tap t meets the residue t * dilation modulo the stride.  The loop is Euclid's algorithm for the
 * gcd. */
uint32_t geometry_tap_step(uint32_t stride, uint32_t dilation)
{
    uint32_t a = stride, b = dilation;
    while (b) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return stride / a;
}

uint64_t geometry_output_elements(const struct problem *p)
{
    switch (p->direction) {
    case DIRECTION_FORWARD: return problem_y_elements(p);
    case DIRECTION_BACKWARD_DATA: return problem_x_elements(p);
    default: return problem_w_elements(p);
    }
}
