/* SPDX-License-Identifier: MIT */
#include "libclient/device/opencl_library.h"

#include <stdio.h>

static struct opencl_library table;

#define REQUIRED true
#define OPTIONAL false
static const struct dynamic_symbol symbols[] = {
#define GPU_SYMBOL(need, result, function, ...) \
    { #function, offsetof(struct opencl_library, function), need },
#include "libclient/device/opencl_symbols.def"
#undef GPU_SYMBOL
};

/* Checks that the types in opencl_symbols.def equal the types in OpenCL's headers. */
#define GPU_SYMBOL(need, result, function, ...)                                            \
    _Static_assert(                                                                        \
        __builtin_types_compatible_p(__typeof__(table.function), __typeof__(&(function))), \
        #function " differs from <CL/cl.h>");
#include "libclient/device/opencl_symbols.def"
#undef GPU_SYMBOL

static const char *const names[] = { "libOpenCL.so.1", "libOpenCL.so", NULL };

struct dynamic_library opencl_dynamic_library = {
    .kind = "opencl",
    .what = "the OpenCL loader",
    .file_variable = "KILN_OPENCL_LIBRARY",
    .path_variable = "KILN_OPENCL_LIBRARY_PATH",
    .names = names,
    .symbols = symbols,
    .symbol_count = sizeof(symbols) / sizeof(symbols[0]),
    .table = &table,
};

enum kiln_code opencl_library_use(const struct opencl_library **ret_library, struct kiln_err *err)
{
    enum kiln_code rc = dynamic_library_use(&opencl_dynamic_library, err);
    if (!rc)
        *ret_library = &table;
    return rc;
}

static const struct {
    cl_int status;
    const char *name;
    enum kiln_code code;
} statuses[] = {
#define STATUS(name, code) \
    {                      \
        name, #name, code  \
    }
    STATUS(CL_DEVICE_NOT_FOUND, KILN_NOT_FOUND),
    STATUS(CL_DEVICE_NOT_AVAILABLE, KILN_UNAVAILABLE),
    STATUS(CL_INVALID_CONTEXT, KILN_INVALID),
    STATUS(CL_INVALID_COMMAND_QUEUE, KILN_INVALID),
    STATUS(CL_INVALID_MEM_OBJECT, KILN_INVALID),
    STATUS(CL_PROFILING_INFO_NOT_AVAILABLE, KILN_UNSUPPORTED),
    STATUS(CL_MEM_OBJECT_ALLOCATION_FAILURE, KILN_NO_MEMORY),
    STATUS(CL_OUT_OF_RESOURCES, KILN_NO_MEMORY),
    STATUS(CL_OUT_OF_HOST_MEMORY, KILN_NO_MEMORY),
    STATUS(CL_BUILD_PROGRAM_FAILURE, KILN_CORRUPT),
    STATUS(CL_MISALIGNED_SUB_BUFFER_OFFSET, KILN_UNSUPPORTED),
    STATUS(CL_INVALID_VALUE, KILN_GPU_FAULT),
    STATUS(CL_INVALID_BINARY, KILN_CORRUPT),
    STATUS(CL_INVALID_PROGRAM, KILN_CORRUPT),
    STATUS(CL_INVALID_PROGRAM_EXECUTABLE, KILN_CORRUPT),
    STATUS(CL_INVALID_KERNEL_NAME, KILN_CORRUPT),
    STATUS(CL_INVALID_KERNEL_ARGS, KILN_CORRUPT),
    STATUS(CL_INVALID_ARG_INDEX, KILN_CORRUPT),
    STATUS(CL_INVALID_ARG_SIZE, KILN_CORRUPT),
    STATUS(CL_INVALID_WORK_GROUP_SIZE, KILN_UNSUPPORTED),
    STATUS(CL_INVALID_WORK_ITEM_SIZE, KILN_UNSUPPORTED),
    STATUS(CL_INVALID_BUFFER_SIZE, KILN_NO_MEMORY),
    STATUS(CL_INVALID_GLOBAL_WORK_SIZE, KILN_UNSUPPORTED),
#undef STATUS
};

enum kiln_code opencl_fail(struct kiln_err *err, cl_int status, const char *fmt, ...)
{
    const char *name = "OpenCL error";
    enum kiln_code code = KILN_GPU_FAULT;
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        if (statuses[i].status == status) {
            name = statuses[i].name;
            code = statuses[i].code;
        }
    char text[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return kiln_fail(err, code, "%s: %s (%d)", text, name, (int)status);
}
