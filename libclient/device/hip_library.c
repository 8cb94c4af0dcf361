/* SPDX-License-Identifier: MIT */
#include "libclient/device/hip_library.h"

static struct hip_library table;

#define REQUIRED true
#define OPTIONAL false
static const struct dynamic_symbol symbols[] = {
#define GPU_SYMBOL(need, result, function, ...) \
    { #function, offsetof(struct hip_library, function), need },
#define DRIVER_CALL(need, field, function) \
    { #function, offsetof(struct hip_library, calls.field), need },
#include "libclient/device/hip_symbols.def"
#undef DRIVER_CALL
#undef GPU_SYMBOL
};

static const char *const names[] = { "libamdhip64.so.7",
                                     "libamdhip64.so.6",
                                     "libamdhip64.so.5",
                                     "libamdhip64.so",
                                     "/opt/rocm/lib/libamdhip64.so",
                                     NULL };

struct dynamic_library hip_dynamic_library = {
    .kind = "hip",
    .what = "the HIP runtime",
    .file_variable = "KILN_HIP_LIBRARY",
    .path_variable = "KILN_HIP_LIBRARY_PATH",
    .names = names,
    .symbols = symbols,
    .symbol_count = sizeof(symbols) / sizeof(symbols[0]),
    .table = &table,
};

enum kiln_code hip_library_use(const struct hip_library **ret_library, struct kiln_err *err)
{
    enum kiln_code rc = dynamic_library_use(&hip_dynamic_library, err);
    if (!rc)
        *ret_library = &table;
    return rc;
}
