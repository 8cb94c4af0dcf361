/* SPDX-License-Identifier: MIT */
#include "libclient/device/cuda_library.h"

static struct cuda_library table;

#define REQUIRED true
#define OPTIONAL false
static const struct dynamic_symbol symbols[] = {
#define GPU_SYMBOL(need, result, function, ...) \
    { #function, offsetof(struct cuda_library, function), need },
#define DRIVER_CALL(need, field, function) \
    { #function, offsetof(struct cuda_library, calls.field), need },
#include "libclient/device/cuda_symbols.def"
#undef DRIVER_CALL
#undef GPU_SYMBOL
};

static const char *const names[] = { "libcuda.so.1", "libcuda.so", NULL };

struct dynamic_library cuda_dynamic_library = {
    .kind = "cuda",
    .what = "the CUDA driver",
    .file_variable = "KILN_CUDA_LIBRARY",
    .path_variable = "KILN_CUDA_LIBRARY_PATH",
    .names = names,
    .symbols = symbols,
    .symbol_count = sizeof(symbols) / sizeof(symbols[0]),
    .table = &table,
};

enum kiln_code cuda_library_use(const struct cuda_library **ret_library, struct kiln_err *err)
{
    enum kiln_code rc = dynamic_library_use(&cuda_dynamic_library, err);
    if (!rc)
        *ret_library = &table;
    return rc;
}
