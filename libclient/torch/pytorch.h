/* SPDX-License-Identifier: MIT */
#ifndef KILN_TORCH_PYTORCH_H
#define KILN_TORCH_PYTORCH_H

/*
 * The functions of PyTorch that the operators call, and the types of their parameters as C sees
 * them.  The functions of the stable C interface (aoti_torch_*, torch_*) return 0 for success and
 * keep C++'s exceptions to themselves.  All others are C++ functions, which throw.
 *
 * Handles    A tensor's handle is a pointer to an at::Tensor, which is one pointer to an object
 *            with a reference count.  So a returned tensor may be moved by copying this pointer.
 * Threading  any thread may call a function
 * Returning  C++ returns a tensor through memory of the caller, as C returns a struct of more than
 *            16 bytes.  So such functions are declared to return a struct of this size.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void *tensor_handle;

struct ints { /* c10::ArrayRef<c10::SymInt>; a SymInt that is no symbol is an int64_t */
    const int64_t *of;
    size_t count;
};

struct maybe_ints { /* c10::OptionalArrayRef<c10::SymInt> */
    struct ints ints;
    bool exists;
};

struct maybe_tensor { /* std::optional<at::Tensor> */
    void *tensor;
    bool exists;
};

struct mask { /* std::array<bool, 3> */
    bool of[3];
};

struct returned { /* at::Tensor in [0]; or the elements of a std::tuple of three, the last first */
    void *of[4];
};

struct scalar { /* c10::Scalar, of which only a copy is needed */
    _Alignas(16) char of[64];
};

struct pytorch {
#define TORCH_FUNCTION(returns, name, parameters, symbol) returns(*name) parameters;
#include "libclient/torch/pytorch.def"
#undef TORCH_FUNCTION
};

extern const char *const pytorch_symbols[]; /* ends with NULL */

/* Fills |torch| with functions in the order of pytorch_symbols. */
void pytorch_fill(struct pytorch *torch, void *const *functions);

#endif
