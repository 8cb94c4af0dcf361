/* SPDX-License-Identifier: MIT */
#ifndef KILN_TORCH_OPERATORS_H
#define KILN_TORCH_OPERATORS_H

/*
 * Operators that were made for one dispatch key, and their table of choices.
 *
 * Ownership  as in torch.h
 * Threading  as in torch.h
 */
#include "libclient/torch/pytorch.h"
#include "libclient/torch/table.h"
#include "libclient/torch/torch.h"

#define DISPATCH_KEY_MAX 32

enum flag { FLAG_BENCHMARK = 1, FLAG_DETERMINISTIC = 2, FLAG_ENABLED = 4, FLAG_TF32 = 8 };

struct kiln_torch_operators {
    struct kiln_torch_operators *next; /* in the list of all operators */
    struct pytorch torch;
    void (*operator_delete)(void *object);
    int (*delete_value)(uint64_t *value);
    const void *context; /* PyTorch's at::Context, which has the flags */
    struct scalar one;   /* the number 1 */
    char dispatch_key[DISPATCH_KEY_MAX];
    uint64_t asked, original; /* as in struct kiln_torch_setup */
    int (*launch)(void *run, const struct kiln_native_tensors *tensors, void *err);
    int (*stream)(int32_t device, void **ret_stream);
    void *library; /* NULL while not installed */
    struct table table;
};

/* The two operators, which PyTorch calls. */
void on_convolution(uint64_t *stack, uint64_t arguments, uint64_t results);
void on_convolution_backward(uint64_t *stack, uint64_t arguments, uint64_t results);

/* Makes |operators| those whose table the two operators use. */
void use_operators(const struct kiln_torch_operators *operators);

/* The call that this thread passed on to Python and that has not ended, or NULL. */
struct call *call_passed_on(void);

#endif
