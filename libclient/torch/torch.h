/* SPDX-License-Identifier: MIT */
#ifndef KILN_TORCH_H
#define KILN_TORCH_H

/*
 * libkiln-torch: PyTorch's convolution operators in C.
 *
 * Role       runs convolutions by kiln or PyTorch, as was chosen for them.  kiln.torch (Python)
 *            loads this library, makes all choices, and runs the convolutions without a choice
 * Ownership  operators and choices are never freed, because launched work and other threads may
 *            still use them.  A process makes one set of operators, and at most CHOICES_MAX choices
 *            (kiln/torch/_operators.py)
 * Threading  any thread may run a convolution, choose or read counts.  Operators are started and
 *            stopped by one thread at a time, while no other thread runs a convolution
 */
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

struct kiln_native_tensors;

/* The names of PyTorch's functions that the operators call, ending with NULL.  Most are C++
 * functions; a name contains the types of all parameters, so a function with other ones is missing
 * instead of being called in the wrong way. */
const char *const *kiln_torch_symbols(void);

struct kiln_torch_setup {
    void *const *functions; /* of kiln_torch_symbols(), in that order */
    /* C++'s operator delete, and torch_delete_stable_ivalue, which is NULL in older versions */
    void (*operator_delete)(void *object);
    int (*delete_value)(uint64_t *value);
    const char *dispatch_key; /* where the operators are installed, such as "CUDA" */
    uint64_t asked, original; /* PyTorch's key sets that lead to Python's operators and PyTorch's */
    /* kiln_run_launch_native, and a function that returns a device's current stream */
    int (*launch)(void *run, const struct kiln_native_tensors *tensors, void *err);
    int (*stream)(int32_t device, void **ret_stream);
};

struct kiln_torch_operators;

/* Returns NULL if no memory is left. */
struct kiln_torch_operators *kiln_torch_new(const struct kiln_torch_setup *setup);

/* Installs the operators.  Returns 0, or the error of PyTorch, which has printed a message. */
int kiln_torch_start(struct kiln_torch_operators *operators);
void kiln_torch_stop(struct kiln_torch_operators *operators);

/* PyTorch's flags for convolutions, a bit each: benchmark, deterministic, enabled, TF32. */
uint32_t kiln_torch_flags(const struct kiln_torch_operators *operators);

/* How kiln computes a convolution in one direction.  The operands are the output, the input and
 * the weight, in this order, without the one that is computed. */
struct kiln_torch_work {
    void *run;          /* first argument of |launch|; stays loaded */
    uint64_t workspace; /* bytes */
    int32_t order[3];   /* positions of x, w and y among the operands and the result (2) */
    int32_t dims;       /* of the result; at most KILN_TORCH_DIMS_MAX */
    int64_t sizes[5], strides[5];
    /* whether an operand has other strides than kiln needs, and those that kiln needs; PyTorch
     * copies such an operand first */
    int32_t copies[2];
    int64_t operand_strides[2][5];
    int64_t calls_max; /* Python decides again after so many calls; -1: no limit */
};

#define KILN_TORCH_DIMS_MAX 5

struct kiln_torch_choice;

/* Returns a choice: kiln as |work| says, or PyTorch if |work| is NULL.  NULL: no memory. */
struct kiln_torch_choice *kiln_torch_choice_new(const struct kiln_torch_work *work);

/* From now on, PyTorch runs the convolution. */
void kiln_torch_choice_leave(struct kiln_torch_choice *choice);

/* Returns how often the C operators ran kiln, and PyTorch. */
void kiln_torch_choice_counts(const struct kiln_torch_choice *choice, uint64_t ret_counts[2]);

/* Python's operator calls this function while it runs a call that a C operator passed on: equal
 * calls are run as the choices say.  |second| is the choice for the gradient of the weight; a
 * choice is NULL if its result was not wanted.  Returns whether the choices were remembered: not if
 * no C operator passed this thread's call on, if PyTorch's flags were changed meanwhile, or if the
 * table is full. */
int kiln_torch_remember(struct kiln_torch_choice *first, struct kiln_torch_choice *second);

#pragma GCC visibility pop
#endif
