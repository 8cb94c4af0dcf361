/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The HIP runtime, opened at run time: libkiln links no vendor library.
 *
 * Ownership  one table a process, never closed
 * Threading  immutable once bound
 */
#include "common/err.h"

struct hip_library {
#define GPU_SYMBOL(need, function, ...) int (*function)(__VA_ARGS__);
#include "libclient/device/hip_symbols.def"
#undef GPU_SYMBOL
};

KILN_MUST_CHECK enum kiln_code hip_library_use(const struct hip_library **ret_library,
                                               struct kiln_err *err);
