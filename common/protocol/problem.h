/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One convolution: direction, sizes, pads, strides, dilations, groups, layouts, types.
 *
 * Role       the input of a plan request; sent as fixed numbers
 * Ownership  a plain value
 * Threading  no shared state
 *
 * Tensors keep their forward names in every direction: x is N,C,D,H,W; w is K,C/groups,Z,Y,X; y is
 * N,K,Do,Ho,Wo.  FORWARD computes y, BACKWARD_DATA computes x, BACKWARD_WEIGHTS computes w.  A 2-D
 * problem has spatial_dims 2, and its depth fields are in.d = filter.d = stride.d = dilation.d = 1,
 * pad.d = 0.  For a transposed convolution, common/miopen/driver_line.c exchanges x and y.
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

enum direction { DIRECTION_FORWARD, DIRECTION_BACKWARD_DATA, DIRECTION_BACKWARD_WEIGHTS };
enum layout { LAYOUT_CHANNELS_FIRST, LAYOUT_CHANNELS_LAST }; /* NC[D]HW, N[D]HWC */
enum data_type { TYPE_FLOAT32, TYPE_FLOAT16, TYPE_BFLOAT16, TYPE_INT8 };

struct extent { /* depth, height, width */
    uint32_t d, h, w;
};

struct problem {
    uint32_t direction;                    /* enum direction */
    uint32_t spatial_dims;                 /* 2 or 3 */
    uint32_t type;                         /* enum data_type; the type of x, w and y */
    uint32_t x_layout, w_layout, y_layout; /* enum layout */
    uint32_t n, c, k, groups;
    struct extent in, filter, pad, stride, dilation;
    uint32_t allow_tf32; /* 1 if solvers may round the operands of fp32 products to TF32 */
};

struct extent problem_output(const struct problem *p);

/* Rejects zero sizes, groups that do not divide c and k, an empty output, tensors of 2^31 elements
 * or more, and TF32 for another type than fp32.  The message names the field and its value. */
KILN_MUST_CHECK enum kiln_code problem_check(const struct problem *p, struct kiln_err *err);

uint64_t problem_x_elements(const struct problem *p);
uint64_t problem_w_elements(const struct problem *p);
uint64_t problem_y_elements(const struct problem *p);
/* Counts two operations for each multiply-add.  All three directions have the same number of
 * operations. */
double problem_flops(const struct problem *p);

size_t data_type_size(enum data_type type);
const char *data_type_name(enum data_type type);
const char *direction_name(enum direction direction);
const char *layout_name(enum layout layout, uint32_t spatial_dims);

bool problem_equal(const struct problem *a, const struct problem *b);

/* Writes the MIOpenDriver command for this problem as one line. */
void problem_to_driver(const struct problem *p, char *text, size_t size);

/* Write and read the wire format: every field as u32 in the order of declaration (26 numbers, 104
 * bytes).  problem_read does not check the values; call problem_check. */
#define PROBLEM_WIRE_SIZE 104
void problem_write(struct buffer *b, const struct problem *p);
struct problem problem_read(struct reader *r);
