/* SPDX-License-Identifier: MIT */
#include "libclient/device/cuda_library.h"
#include "libclient/device/hip_library.h"
#include "libclient/device/opencl_library.h"
#include "libclient/failure.h"

#include <string.h>

static struct dynamic_library *const libraries[] = {
    &hip_dynamic_library,
    &cuda_dynamic_library,
    &opencl_dynamic_library,
};

static struct dynamic_library *find_library(const char *kind)
{
    for (size_t i = 0; kind && i < sizeof(libraries) / sizeof(libraries[0]); i++)
        if (strcmp(libraries[i]->kind, kind) == 0)
            return libraries[i];
    return NULL;
}

int kiln_library_path_set(const char *kind, const char *path, struct kiln_error *err)
{
    struct dynamic_library *library = find_library(kind);
    if (!library)
        return error_argument(err, "'%s' is not a kind of device: give hip, cuda or opencl",
                              kind ? kind : "(null)");
    struct kiln_err e = KILN_ERR_INIT;
    return error_return(&e, dynamic_library_set_path(library, path, &e), err);
}

const char *kiln_library_file(const char *kind)
{
    const struct dynamic_library *library = find_library(kind);
    return library ? dynamic_library_file(library) : NULL;
}
