/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The CUDA driver, opened at run time: libkiln links no vendor library.
 *
 * Ownership  one table a process, never closed
 * Threading  immutable once bound
 */
#include "common/err.h"

struct cuda_library {
#define GPU_SYMBOL(need, function, ...) int (*function)(__VA_ARGS__);
#include "libclient/device/cuda_symbols.def"
#undef GPU_SYMBOL
};

KILN_MUST_CHECK enum kiln_code cuda_library_use(const struct cuda_library **ret_library,
                                                struct kiln_err *err);
