/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * MIOpen's names for a problem, and ours for it.
 *
 *   FindDb key   64-56-56-3x3-64-56-56-64-1x1-1x1-1x1-0-NCHW-FP32-F[_gG]; in 3-D depths go first:
 *                C-D-H-W-ZxYxX-K-Do-Ho-Wo-N-PDxPHxPW-SDxSHxSW-DDxDHxDW-bias-NCDHW-FP32-F
 *   PerfDb key   2x64x56x56x1x3x3x1x64x64x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF: a row of the table
 *                config, its columns joined as in MIOpen's text PerfDb (spatial_dim, in_channels,
 *                in_h, in_w, in_d, fil_h, fil_w, fil_d, out_channels, batchsize, pad_h/w/d,
 *                conv_stride_h/w/d, dilation_h/w/d, bias, group_count, layout, data_type,
 * direction)
 *
 * For B and W MIOpen exchanges the tensors: in_* are dy's, out_* are x's.  A PerfDb key does not
 * state the other tensor's size, so of a strided B or W it names the smallest x that gives this dy.
 *
 * Layouts stand in the same order: in, weights, out.  A FindDb key names all three unless all are
 * NCHW (NCDHW).  A PerfDb key names that of "in" alone: the row of a problem with mixed layouts
 * would be that of another problem, so such a problem has no PerfDb key.
 *
 * MIOpen infers a layout from strides, so where extents are 1 and layouts are mixed, its name of a
 * tensor may be another one of the same memory; kiln writes the layouts as the problem has them.
 *
 * Threading  pure functions
 */
#include "common/problem.h"

#define PROBLEM_KEY_MAX 320 /* with the terminating NUL, of either key */

/* Returns the key's length.  Valid problems only (problem_check). */
size_t find_key_write(const struct problem *p, char text[PROBLEM_KEY_MAX]);
/* As find_key_write; 0 and "" for a problem of mixed layouts. */
size_t perf_key_write(const struct problem *p, char text[PROBLEM_KEY_MAX]);

/* KILN_INVALID: not such a key, saying what is wrong and where (columns count from 1).
 * KILN_UNSUPPORTED: it is one, but no problem of ours has exactly this key (a bias, a type or mix
 * of layouts that we do not know, an output size that does not follow from the rest): who stores it
 * keeps it verbatim.  What is parsed is a valid problem, and writing it gives the same bytes. */
KILN_MUST_CHECK enum kiln_code find_key_parse(struct bytes text, struct problem *ret_problem,
                                              struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code perf_key_parse(struct bytes text, struct problem *ret_problem,
                                              struct kiln_err *err);

/* Whatever names a problem for people: a FindDb key, a PerfDb key, or a MIOpenDriver command line,
 * whose every direction is a problem of its own (at most three). */
KILN_MUST_CHECK enum kiln_code problem_named(struct bytes text, struct problem ret_problems[3],
                                             unsigned *ret_count, struct kiln_err *err);
