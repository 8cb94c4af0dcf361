/* SPDX-License-Identifier: MIT */
#ifndef KILN_TORCH_CALL_H
#define KILN_TORCH_CALL_H

/*
 * One call of an operator: its arguments, its results, and the key by which its choices are found.
 *
 * Ownership  a call owns the handles of its tensors, until call_end().  C++'s exceptions pass
 *            through the operators, so a call is declared with CALL_AUTO, and the files that use
 *            calls are compiled with -fexceptions
 * Threading  a call belongs to its thread
 */
#include "libclient/torch/pytorch.h"
#include "libclient/torch/torch.h"

#define LIST_MAX 8 /* PyTorch rejects a longer list, because of too many dimensions */
#define KEY_WORDS_MAX 96

struct list {
    int64_t of[LIST_MAX];
    int64_t *longer; /* a list of more than LIST_MAX; otherwise NULL */
    size_t count;
};

struct key {
    uint64_t hash;
    size_t count;
    int64_t words[KEY_WORDS_MAX];
};

struct call {
    const struct kiln_torch_operators *operators;
    struct call *outer;       /* the call during which Python made this one */
    tensor_handle tensors[3]; /* input, weight, bias; or output's gradient, input, weight */
    struct maybe_tensor bias;
    struct list bias_sizes, stride, padding, dilation, output_padding;
    bool has_bias_sizes, transposed, is_backward;
    int64_t groups;
    struct mask mask;
    size_t mask_count; /* number of the mask's elements; PyTorch rejects any number but three */
    uint32_t flags;    /* kiln_torch_flags() */
    bool has_key;
    void *stream;
    tensor_handle made[3]; /* the results; NULL: not made yet, or not wanted */
    struct key key;        /* the last member, see call_begin() */
};

#define CALL_AUTO __attribute__((cleanup(call_end)))

void call_begin(struct call *call, const struct kiln_torch_operators *operators);

/* Read the arguments from PyTorch's stack, from which the call takes over the handles. */
void call_read_forward(struct call *call, uint64_t *stack);
void call_read_backward(struct call *call, uint64_t *stack);

/* Makes the key.  Without one, because an argument is unusual or PyTorch records a trace, which
 * would lack the convolution, has_key stays false. */
void call_make_key(struct call *call);

void call_end(struct call *call);

/* Makes a tensor with the sizes and strides of |work|, on the device and of the type of the call's
 * first tensor. */
bool call_make_result(const struct call *call, const struct kiln_torch_work *work,
                      tensor_handle *ret_made);

/* Makes a workspace on the device of the call's first tensor, or none for 0 bytes. */
bool call_make_workspace(const struct call *call, uint64_t bytes, tensor_handle *ret_workspace);

/* Copies a tensor to new memory with other strides. */
bool call_copy(const struct call *call, tensor_handle tensor, const int64_t *strides,
               tensor_handle *ret_copy);

#endif
