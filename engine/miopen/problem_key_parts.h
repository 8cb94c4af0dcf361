/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Declarations shared by the files that read problem keys. Not for other directories.
 *
 * Threading  pure functions
 */
#include "engine/miopen/problem_key.h"

#define LAYOUT_ORDERS 3 /* in, weights, out */

/* Values that have not been checked.  |in| and |out| are as MIOpen names them: for the backward
 * directions, they are exchanged. */
struct key_parts {
    uint32_t spatial_dims, in_channels, out_channels, n, bias, groups;
    struct extent in, filter, out, pad, stride, dilation;
    struct bytes layouts[LAYOUT_ORDERS];
    unsigned layout_count;
    struct bytes type, direction;
    /* FindDb only, such as "_g4_ciFP16"; empty if the key has no optional part except the groups */
    struct bytes suffix;
    bool one_group_stated;
};

/* Both functions split a key; the parts borrow from |text|. The direction is one of F, B, W; there
 * are one or three layouts. The functions return KILN_INVALID, with the position in the message, if
 * the text has another form. */
KILN_MUST_CHECK enum kiln_code find_key_split(struct bytes text, struct key_parts *ret_parts,
                                              struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code perf_key_split(struct bytes text, struct key_parts *ret_parts,
                                              struct kiln_err *err);
