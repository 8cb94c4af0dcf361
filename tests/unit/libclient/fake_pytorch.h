/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A fake PyTorch: the functions that libkiln-torch calls, on tensors without contents.
 *
 * Threading  Several threads may make calls at once, but only one may change the settings.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_ASKED 11
#define FAKE_ORIGINAL 22
#define FAKE_FLAGS 5 /* benchmark, deterministic (2), enabled, TF32 */

enum fake_bias { FAKE_NONE, FAKE_UNDEFINED, FAKE_DEFINED };

struct fake_call {                  /* all zero: the smallest call */
    int64_t batch, groups, padding; /* 0: 2, 1, 0 */
    size_t strides;                 /* 0: 2; at most 12 */
    int dims, type;                 /* 0: 4, 6 */
    bool is_last, transposed, bias_sizes;
    enum fake_bias bias;
    uintptr_t offset; /* of the memory, from an aligned address */
    bool mask[3];
    size_t mask_count; /* 0: 3 */
};

struct fake_result {
    void *data[3]; /* NULL for an undefined tensor */
};

struct fake_pytorch {
    _Atomic int handles, tensors, lists; /* that exist */
    bool is_installed;
    bool flags[FAKE_FLAGS];
    bool refuses_memory, fails_to_copy, throws, changes_flag, tries_to_remember;
    bool has_thrown, was_remembered;
    char message[128];     /* of an error of PyTorch's that was thrown */
    _Atomic int originals; /* calls of PyTorch's own operators */
    void *tracing;         /* NULL if nothing is traced */
    int mask, added;
    _Atomic size_t strides;  /* of the last call */
    int64_t workspace_bytes; /* all workspaces that were made */
    int copies;
    const void *copied_from, *copied_to; /* of the last copy */
    int64_t copied_strides[6];
    int device;                  /* the current one */
    _Atomic(void *) operands[3]; /* memory of the last call's first tensors */
};

extern struct fake_pytorch fake_pytorch;

/* Begins anew. |asked| is called when Python's operators are. */
void fake_pytorch_reset(void (*asked)(void));

/* Returns the functions of these names. */
void *const *fake_pytorch_functions(const char *const *names);

/* Call the installed operators, as a job does. */
struct fake_result fake_forward(struct fake_call call);
struct fake_result fake_backward(struct fake_call call);
