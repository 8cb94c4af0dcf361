/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Converts between kiln's problems and MIOpen's names for them.
 *
 *   FindDb key   64-56-56-3x3-64-56-56-64-1x1-1x1-1x1-0-NCHW-FP32-F[_gG]; in 3-D, depths come
 *                first: C-D-H-W-ZxYxX-K-Do-Ho-Wo-N-PDxPHxPW-SDxSHxSW-DDxDHxDW-bias-NCDHW-FP32-F
 *   PerfDb key   2x64x56x56x1x3x3x1x64x64x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF: a row of the table
 *                config, its columns joined as in MIOpen's text PerfDb (spatial_dim, in_channels,
 *                in_h, in_w, in_d, fil_h, fil_w, fil_d, out_channels, batchsize, pad_h/w/d,
 *                conv_stride_h/w/d, dilation_h/w/d, bias, group_count, layout, data_type,
 *                direction)
 *
 * For the directions B (backward data) and W (backward weights), MIOpen exchanges the tensors: in_*
 * describe dy, out_* describe x. A PerfDb key does not state the size of x. For a strided problem
 * in these directions, kiln takes the smallest x that gives this dy.
 *
 * A key has three layouts, in this order: in, weights, out. A FindDb key names all three, or only
 * NCHW (NCDHW) if all three have that layout. A PerfDb key names only the layout of "in". A problem
 * with mixed layouts would therefore share the row of another problem, so kiln gives it no PerfDb
 * key.
 *
 * MIOpen has no TF32. The keys of a problem that allows TF32 have the type TF32 instead of FP32, so
 * its records are separate. kiln never exports them to a file that MIOpen would read.
 *
 * MIOpen infers a layout from strides. If layouts are mixed and extents are 1, it may choose
 * another name for the same memory. kiln writes the layouts that the problem states.
 *
 * Threading  pure functions
 */
#include "common/protocol/problem.h"

#define PROBLEM_KEY_MAX 320

/* Returns the length.  The problem must be valid (problem_check). */
size_t find_key_write(const struct problem *p, char text[PROBLEM_KEY_MAX]);
/* Returns the length. For a problem with mixed layouts, writes "" and returns 0. */
size_t perf_key_write(const struct problem *p, char text[PROBLEM_KEY_MAX]);

bool problem_key_has_tf32(struct bytes key);

/* Both functions parse a key. On success, the problem is valid, and writing its key gives the same
 * bytes. They return KILN_INVALID, with the position in the message, if the text is not such a key.
 * They return KILN_UNSUPPORTED if no problem of kiln has this key, because of a bias, an unknown
 * type or mix of layouts, or an output size that does not follow from the other values. */
KILN_MUST_CHECK enum kiln_code find_key_parse(struct bytes text, struct problem *ret_problem,
                                              struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code perf_key_parse(struct bytes text, struct problem *ret_problem,
                                              struct kiln_err *err);

/* Parses what a user enters: a FindDb key, a PerfDb key, or a MIOpenDriver command line. Each
 * direction of a command line is a separate problem. */
KILN_MUST_CHECK enum kiln_code problem_named(struct bytes text, struct problem ret_problems[3],
                                             unsigned *ret_count, struct kiln_err *err);
