/* SPDX-License-Identifier: MIT */
#ifndef KILN_PROBLEM_H
#define KILN_PROBLEM_H

/*
 * Problems: a problem is one convolution.  In every direction, tensors have the names that they
 * have in the forward direction:
 *   x  n, c, [d,] h, w           w  k, c/groups, [z,] y, x           y  n, k, [do,] ho, wo
 * FORWARD computes y from x and w; BACKWARD_DATA x from y and w; BACKWARD_WEIGHTS w from x and y.
 * Sums are in 32-bit floating point, whatever the storage type.
 *
 * Ownership  Plain values; returned strings have static storage.
 * Threads    Any thread; there is no shared state.
 */
#include <kiln/error.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum { KILN_FORWARD = 0, KILN_BACKWARD_DATA = 1, KILN_BACKWARD_WEIGHTS = 2 };
enum { KILN_CHANNELS_FIRST = 0, KILN_CHANNELS_LAST = 1 }; /* NC[D]HW, N[D]HWC */
enum { KILN_FLOAT32 = 0, KILN_FLOAT16 = 1, KILN_BFLOAT16 = 2, KILN_INT8 = 3 };
enum { KILN_TENSOR_X = 0, KILN_TENSOR_W = 1, KILN_TENSOR_Y = 2 };

struct kiln_problem {
    size_t size;
    uint32_t direction;                    /* KILN_FORWARD, ... */
    uint32_t spatial_dims;                 /* 2 or 3 */
    uint32_t type;                         /* of x, w and y: KILN_FLOAT32, ... */
    uint32_t x_layout, w_layout, y_layout; /* KILN_CHANNELS_FIRST or _LAST */
    /* Numbers of images, input channels, output channels and groups. */
    uint32_t n, c, k, groups;
    /* Depth, height, width.  In a 2-D problem, the depth of |in|, |filter|, |stride| and |dilation|
     * is 1, and that of |pad| is 0. */
    uint32_t in[3], filter[3], pad[3], stride[3], dilation[3];
    /* If 1, solvers may round the operands of KILN_FLOAT32 products to TF32 (11 significant bits),
     * as cuDNN does by default.  If 0, solvers may not round them, as in MIOpen.  Ignored for other
     * types. */
    uint32_t allow_tf32;
};

/* One parsed MIOpenDriver command line. */
struct kiln_driver_line {
    size_t size;
    /* The problems that -F selects, in the order forward, backward data, backward weights. */
    struct kiln_problem problems[3];
    unsigned count;
    unsigned iterations;            /* value of -i, at least 1 */
    int verify, time, wall, search; /* values of -V, -t, -w and -s: 0 or 1 */
    int transposed;                 /* 1 for -m trans: in |problems|, x and y are exchanged */
    char solver[64]; /* value of -S as given, a name or MIOpen's number; "": the best solver */
};

/* Parses a MIOpenDriver command line, such as "conv -n 64 -c 3 ...".  Skips the text before conv,
 * convfp16, convbfp16 or convint8, such as the path of the program or the prefix that
 * MIOPEN_ENABLE_LOGGING_CMD=1 logs.  Missing values have MIOpenDriver's defaults, and flags without
 * a meaning for kiln are ignored.  Returns KILN_E_INVALID or KILN_E_UNSUPPORTED for an unknown
 * flag, a bad value or an impossible problem; the message names the cause.  Returns
 * KILN_E_NOT_FOUND for a blank line or a comment (#). */
int kiln_driver_line_parse(const char *line, struct kiln_driver_line *ret_line,
                           struct kiln_error *err);
/* Like kiln_driver_line_parse, for a command line that is already split into words, such as a
 * program's arguments. */
int kiln_driver_words_parse(const char *const *words, size_t count,
                            struct kiln_driver_line *ret_line, struct kiln_error *err);
/* Returns the description of MIOpenDriver's flag number |index|, for help texts.  Returns NULL
 * after the last flag.  Also returns the flag's letter (0 if the flag has no letter) and its long
 * name.  Static storage. */
const char *kiln_driver_flag(unsigned index, char *ret_letter, const char **ret_name);

/* Like kiln_driver_line_parse(), but returns only the problems. */
int kiln_problem_from_driver(const char *line, struct kiln_problem ret_problems[3],
                             unsigned *ret_count, struct kiln_error *err);
/* Writes the problem as one MIOpenDriver command line.  The text is NUL-terminated, and truncated
 * to |size| bytes. */
int kiln_problem_to_driver(const struct kiln_problem *problem, char *text, size_t size,
                           struct kiln_error *err);
/* Rejects problems that no solver could solve: zero sizes, groups that do not divide the channels,
 * an empty output. */
int kiln_problem_check(const struct kiln_problem *problem, struct kiln_error *err);
/* Computes depth, height and width of y. */
int kiln_problem_output(const struct kiln_problem *problem, uint32_t ret_output[3],
                        struct kiln_error *err);
/* Computes the number of elements and of bytes of tensor |which| (KILN_TENSOR_X, ...).  Either
 * result pointer may be NULL. */
int kiln_problem_tensor(const struct kiln_problem *problem, int which, uint64_t *ret_elements,
                        uint64_t *ret_bytes, struct kiln_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
