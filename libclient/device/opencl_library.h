/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The OpenCL loader, opened at run time.  The OpenCL headers only provide types and constants.
 *
 * Ownership  one table per process, never closed
 * Threading  immutable once bound
 */
#include "common/base/err.h"
#include "libclient/device/dynamic_library.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

struct opencl_library {
#define GPU_SYMBOL(need, result, function, ...) result (*function)(__VA_ARGS__);
#include "libclient/device/opencl_symbols.def"
#undef GPU_SYMBOL
};

extern struct dynamic_library opencl_dynamic_library;

KILN_MUST_CHECK enum kiln_code opencl_library_use(const struct opencl_library **ret_library,
                                                  struct kiln_err *err);

/* Stores "cannot <what>: CL_OUT_OF_RESOURCES (-5)", where |fmt| gives <what>. */
enum kiln_code opencl_fail(struct kiln_err *err, cl_int status, const char *fmt, ...)
    KILN_PRINTF(3, 4);
