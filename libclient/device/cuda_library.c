/* SPDX-License-Identifier: MIT */
#include "libclient/device/cuda_library.h"

#include "libclient/device/dynamic_library.h"

static struct cuda_library table;

#define REQUIRED true
#define OPTIONAL false
static const struct dynamic_symbol symbols[] = {
#define GPU_SYMBOL(need, function, ...) \
    { #function, offsetof(struct cuda_library, function), need },
#include "libclient/device/cuda_symbols.def"
#undef GPU_SYMBOL
};

static const char *const names[] = { "libcuda.so.1", "libcuda.so", NULL };

static struct dynamic_library library = {
    .what = "the CUDA driver",
    .variable = "KILN_CUDA_LIBRARY",
    .names = names,
    .symbols = symbols,
    .symbol_count = sizeof(symbols) / sizeof(symbols[0]),
    .table = &table,
};

enum kiln_code cuda_library_use(const struct cuda_library **ret_library, struct kiln_err *err)
{
    enum kiln_code rc = dynamic_library_use(&library, err);
    if (!rc)
        *ret_library = &table;
    return rc;
}
