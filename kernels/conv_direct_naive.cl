/* SPDX-License-Identifier: MIT */
/*
 * ConvDirectNaive: any convolution, computed from its definition, with fp32 sums.
 *
 * A program has one direction (KILN_DIRECTION: 0 forward, 1 backward data, 2 backward weights).
 * Every size but the batch is defined by -D, so that the compiler divides by constants:
 *   KILN_C KILN_K KILN_GROUPS, and for each of _D _H _W:
 *   KILN_IN KILN_OUT KILN_FILTER KILN_PAD KILN_STRIDE KILN_DILATION
 *   KILN_X_LAST KILN_W_LAST KILN_Y_LAST   1 where that tensor's channels come last
 *   KILN_GROUP_SIZE   items in a work group
 *   KILN_BLOCK        outputs that one item computes, in neighbouring channels; divides the
 *                     channels of a group
 * Tensors have fewer than 2^31 elements and padded inputs fewer than 2^31 pixels along an axis, so
 * 32-bit indices suffice.
 *
 * Items are numbered in the order of their outputs in memory.
 */
#include "kiln/prelude.h"

#define GROUP_C (KILN_C / KILN_GROUPS)
#define GROUP_K (KILN_K / KILN_GROUPS)

/* Otherwise, LLVM for AMD moves the reads of all channels to the front and spills registers. */
#if defined(KILN_HIP)
#define UNROLL_CHANNELS _Pragma("unroll 4")
#else
#define UNROLL_CHANNELS
#endif

/* Distances between neighbours, in elements. */
#define X_W (KILN_X_LAST ? KILN_C : 1)
#define X_H (X_W * KILN_IN_W)
#define X_D (X_H * KILN_IN_H)
#define X_C (KILN_X_LAST ? 1 : KILN_IN_D * KILN_IN_H * KILN_IN_W)
#define X_N (KILN_C * KILN_IN_D * KILN_IN_H * KILN_IN_W)
#define W_W (KILN_W_LAST ? GROUP_C : 1)
#define W_H (W_W * KILN_FILTER_W)
#define W_D (W_H * KILN_FILTER_H)
#define W_C (KILN_W_LAST ? 1 : KILN_FILTER_D * KILN_FILTER_H * KILN_FILTER_W)
#define W_K (GROUP_C * KILN_FILTER_D * KILN_FILTER_H * KILN_FILTER_W)
#define Y_W (KILN_Y_LAST ? KILN_K : 1)
#define Y_H (Y_W * KILN_OUT_W)
#define Y_D (Y_H * KILN_OUT_H)
#define Y_K (KILN_Y_LAST ? 1 : KILN_OUT_D * KILN_OUT_H * KILN_OUT_W)
#define Y_N (KILN_K * KILN_OUT_D * KILN_OUT_H * KILN_OUT_W)

/* |outer| is n, or k for w; |channel| is the first of a block. */
struct place {
    kiln_u32 outer, channel, d, h, w;
};

KILN_DEVICE struct place locate(kiln_u32 item, kiln_u32 channels, kiln_u32 depth, kiln_u32 height,
                                kiln_u32 width, int channels_last)
{
    struct place at;
    kiln_u32 blocks = channels / KILN_BLOCK;
    if (channels_last) {
        at.channel = item % blocks * KILN_BLOCK;
        item /= blocks;
    }
    at.w = item % width;
    item /= width;
    at.h = item % height;
    item /= height;
    at.d = item % depth;
    item /= depth;
    if (!channels_last) {
        at.channel = item % blocks * KILN_BLOCK;
        item /= blocks;
    }
    at.outer = item;
    return at;
}

#define WORK_ITEM (kiln_group() * KILN_GROUP_SIZE + kiln_item())

/* The coordinate of x that |tap| reads for an output of y. */
#define INPUT_AT(out, tap, axis) \
    ((int)(out)*KILN_STRIDE_##axis + (int)(tap)*KILN_DILATION_##axis - KILN_PAD_##axis)
#define IS_INPUT(at, axis) ((at) >= 0 && (at) < KILN_IN_##axis)
/* The stride times the coordinate of y to which |tap| adds the input |in|, if
 * IS_STRIDED_OUTPUT(). */
#define STRIDED_OUTPUT_AT(in, tap, axis) \
    ((int)(in) + KILN_PAD_##axis - (int)(tap)*KILN_DILATION_##axis)
#define IS_STRIDED_OUTPUT(at, axis) \
    ((at) >= 0 && (at) % KILN_STRIDE_##axis == 0 && (at) / KILN_STRIDE_##axis < KILN_OUT_##axis)

#if KILN_DIRECTION == 0

KILN_KERNEL(KILN_GROUP_SIZE)
void conv_direct_naive_forward(KILN_GLOBAL const kiln_value *KILN_RESTRICT x,
                               KILN_GLOBAL const kiln_value *KILN_RESTRICT w,
                               KILN_GLOBAL kiln_value *KILN_RESTRICT y, kiln_u32 n)
{
    struct place at = locate(WORK_ITEM, KILN_K, KILN_OUT_D, KILN_OUT_H, KILN_OUT_W, KILN_Y_LAST);
    kiln_u32 x_group = at.outer * X_N + at.channel / GROUP_K * GROUP_C * X_C;
    float sum[KILN_BLOCK] = { 0 };
    if (at.outer >= n)
        return;

    KILN_ROLLED
    for (int fd = 0; fd < KILN_FILTER_D; fd++) {
        int d = INPUT_AT(at.d, fd, D);
        if (!IS_INPUT(d, D))
            continue;
        KILN_ROLLED
        for (int fh = 0; fh < KILN_FILTER_H; fh++) {
            int h = INPUT_AT(at.h, fh, H);
            if (!IS_INPUT(h, H))
                continue;
            KILN_ROLLED
            for (int fw = 0; fw < KILN_FILTER_W; fw++) {
                int v = INPUT_AT(at.w, fw, W);
                if (!IS_INPUT(v, W))
                    continue;
                kiln_u32 from = x_group + (kiln_u32)(d * X_D + h * X_H + v * X_W);
                kiln_u32 with = at.channel * W_K + fd * W_D + fh * W_H + fw * W_W;
                UNROLL_CHANNELS
                for (int c = 0; c < GROUP_C; c++) {
                    float value = kiln_load(x, from + c * X_C);
                    for (int b = 0; b < KILN_BLOCK; b++)
                        sum[b] += value * kiln_load(w, with + b * W_K + c * W_C);
                }
            }
        }
    }

    kiln_u32 to = at.outer * Y_N + at.channel * Y_K + at.d * Y_D + at.h * Y_H + at.w * Y_W;
    for (int b = 0; b < KILN_BLOCK; b++)
        kiln_store(y, to + b * Y_K, sum[b]);
}

#elif KILN_DIRECTION == 1

KILN_KERNEL(KILN_GROUP_SIZE)
void conv_direct_naive_backward_data(KILN_GLOBAL kiln_value *KILN_RESTRICT x,
                                     KILN_GLOBAL const kiln_value *KILN_RESTRICT w,
                                     KILN_GLOBAL const kiln_value *KILN_RESTRICT y, kiln_u32 n)
{
    struct place at = locate(WORK_ITEM, KILN_C, KILN_IN_D, KILN_IN_H, KILN_IN_W, KILN_X_LAST);
    kiln_u32 group_k = at.channel / GROUP_C * GROUP_K;
    kiln_u32 w_group = group_k * W_K + at.channel % GROUP_C * W_C;
    float sum[KILN_BLOCK] = { 0 };
    if (at.outer >= n)
        return;

    KILN_ROLLED
    for (int fd = 0; fd < KILN_FILTER_D; fd++) {
        int d = STRIDED_OUTPUT_AT(at.d, fd, D);
        if (!IS_STRIDED_OUTPUT(d, D))
            continue;
        KILN_ROLLED
        for (int fh = 0; fh < KILN_FILTER_H; fh++) {
            int h = STRIDED_OUTPUT_AT(at.h, fh, H);
            if (!IS_STRIDED_OUTPUT(h, H))
                continue;
            KILN_ROLLED
            for (int fw = 0; fw < KILN_FILTER_W; fw++) {
                int v = STRIDED_OUTPUT_AT(at.w, fw, W);
                if (!IS_STRIDED_OUTPUT(v, W))
                    continue;
                kiln_u32 from = at.outer * Y_N + group_k * Y_K +
                                (kiln_u32)(d / KILN_STRIDE_D * Y_D + h / KILN_STRIDE_H * Y_H +
                                           v / KILN_STRIDE_W * Y_W);
                kiln_u32 with = w_group + fd * W_D + fh * W_H + fw * W_W;
                UNROLL_CHANNELS
                for (int k = 0; k < GROUP_K; k++) {
                    float value = kiln_load(y, from + k * Y_K);
                    for (int b = 0; b < KILN_BLOCK; b++)
                        sum[b] += value * kiln_load(w, with + k * W_K + b * W_C);
                }
            }
        }
    }

    kiln_u32 to = at.outer * X_N + at.channel * X_C + at.d * X_D + at.h * X_H + at.w * X_W;
    for (int b = 0; b < KILN_BLOCK; b++)
        kiln_store(x, to + b * X_C, sum[b]);
}

#else

/* Output 0 reads the input at |left|. */
KILN_DEVICE int outputs_left_of(int bound, int left)
{
    int distance = bound - left;
    int count = distance <= 0 ? 0 : (distance + KILN_STRIDE_W - 1) / KILN_STRIDE_W;
    return count < KILN_OUT_W ? count : KILN_OUT_W;
}

KILN_KERNEL(KILN_GROUP_SIZE)
void conv_direct_naive_backward_weights(KILN_GLOBAL const kiln_value *KILN_RESTRICT x,
                                        KILN_GLOBAL kiln_value *KILN_RESTRICT w,
                                        KILN_GLOBAL const kiln_value *KILN_RESTRICT y, kiln_u32 n)
{
    struct place at =
        locate(WORK_ITEM, GROUP_C, KILN_FILTER_D, KILN_FILTER_H, KILN_FILTER_W, KILN_W_LAST);
    int left = INPUT_AT(0, at.w, W);
    int first = outputs_left_of(0, left);
    int end = outputs_left_of(KILN_IN_W, left);
    kiln_u32 x_group = (at.outer / GROUP_K * GROUP_C + at.channel) * X_C;
    float sum[KILN_BLOCK] = { 0 };
    if (at.outer >= KILN_K)
        return;

    for (kiln_u32 i = 0; i < n; i++) {
        for (int od = 0; od < KILN_OUT_D; od++) {
            int d = INPUT_AT(od, at.d, D);
            if (!IS_INPUT(d, D))
                continue;
            for (int oh = 0; oh < KILN_OUT_H; oh++) {
                int h = INPUT_AT(oh, at.h, H);
                if (!IS_INPUT(h, H))
                    continue;
                kiln_u32 from = i * X_N + x_group + (kiln_u32)(d * X_D + h * X_H) +
                                (kiln_u32)(left + first * KILN_STRIDE_W) * X_W;
                kiln_u32 with = i * Y_N + at.outer * Y_K + od * Y_D + oh * Y_H;
                /* Summing each row separately reduces the rounding error. */
                float row[KILN_BLOCK] = { 0 };
                for (int ow = first; ow < end; ow++, from += KILN_STRIDE_W * X_W) {
                    float value = kiln_load(y, with + ow * Y_W);
                    for (int b = 0; b < KILN_BLOCK; b++)
                        row[b] += value * kiln_load(x, from + b * X_C);
                }
                for (int b = 0; b < KILN_BLOCK; b++)
                    sum[b] += row[b];
            }
        }
    }

    kiln_u32 to = at.outer * W_K + at.channel * W_C + at.d * W_D + at.h * W_H + at.w * W_W;
    for (int b = 0; b < KILN_BLOCK; b++)
        kiln_store(w, to + b * W_C, sum[b]);
}

#endif
