/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The CUDA driver, opened at run time: libkiln links no vendor library.
 *
 * Ownership  one table per process, never closed
 * Threading  immutable once bound
 */
#include "common/base/err.h"
#include "libclient/device/driver.h"
#include "libclient/device/dynamic_library.h"

struct cuda_library {
    struct driver_calls calls;
#define GPU_SYMBOL(need, result, function, ...) result (*function)(__VA_ARGS__);
#define DRIVER_CALL(need, field, function)
#include "libclient/device/cuda_symbols.def"
#undef DRIVER_CALL
#undef GPU_SYMBOL
};

extern struct dynamic_library cuda_dynamic_library;

KILN_MUST_CHECK enum kiln_code cuda_library_use(const struct cuda_library **ret_library,
                                                struct kiln_err *err);
