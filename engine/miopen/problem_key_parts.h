/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Declarations shared by the files that read problem keys. Not for other directories.
 */
#include "engine/miopen/problem_key.h"

#define LAYOUT_ORDERS 3 /* in, weights, out */

/* A key taken apart, its values not looked at; |in| and |out| as MIOpen has them. */
struct key_parts {
    uint32_t spatial_dims, in_channels, out_channels, n, bias, groups;
    struct extent in, filter, out, pad, stride, dilation;
    struct bytes layouts[LAYOUT_ORDERS];
    unsigned layout_count;
    struct bytes type, direction;
    struct bytes suffix;   /* of FindDb: "_g4_ciFP16"; empty when it is no more than groups */
    bool one_group_stated; /* "_g1" */
};

/* KILN_INVALID with the place.  Directions are one of F, B, W; there are one or three layouts; the
 * words borrow from |text|. */
KILN_MUST_CHECK enum kiln_code find_key_take_apart(struct bytes text, struct key_parts *ret_parts,
                                                   struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code perf_key_take_apart(struct bytes text, struct key_parts *ret_parts,
                                                   struct kiln_err *err);
