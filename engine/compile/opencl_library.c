/* SPDX-License-Identifier: MIT */
#include "engine/compile/opencl_library.h"
#include "common/target/opencl_target.h"
#include "engine/compile/library.h"

#include <stdio.h>
#include <string.h>

#define PLATFORMS_MAX 8u
#define NAME_LENGTH_MAX 512

static const struct library_symbol symbols[] = {
#define REQUIRED true
#define OPENCL_SYMBOL(need, result, function, ...) \
    { .name = #function, .slot = offsetof(struct opencl_library, function), .required = need },
#include "engine/compile/opencl_symbols.def"
#undef OPENCL_SYMBOL
#undef REQUIRED
    { .name = NULL },
};

enum kiln_code opencl_library_open(struct opencl_library *ret_library, struct kiln_err *err)
{
    static const char *const names[] = { "libOpenCL.so.1", "libOpenCL.so", NULL };
    static const char *const directories[] = { "", NULL };
    struct library_search search = {
        .what = "OpenCL",
        .directories = directories,
        .names = names,
        .advice = "install an OpenCL driver, such as Debian's pocl-opencl-icd",
    };
    void *dl = NULL;
    char path[NAME_LENGTH_MAX];
    enum kiln_code rc = library_open(&search, &dl, path, sizeof(path), err);
    if (rc)
        return rc;
    return library_bind(dl, "OpenCL", symbols, ret_library, err);
}

static void device_text(const struct opencl_library *cl, void *device, unsigned what,
                        char text[NAME_LENGTH_MAX])
{
    size_t size = 0;
    *text = '\0';
    if (cl->clGetDeviceInfo(device, what, NAME_LENGTH_MAX - 1, text, &size) != 0)
        *text = '\0';
    text[NAME_LENGTH_MAX - 1] = '\0';
}

static void platform_text(const struct opencl_library *cl, void *platform, unsigned what,
                          char text[NAME_LENGTH_MAX])
{
    size_t size = 0;
    *text = '\0';
    if (cl->clGetPlatformInfo(platform, what, NAME_LENGTH_MAX - 1, text, &size) != 0)
        *text = '\0';
    text[NAME_LENGTH_MAX - 1] = '\0';
}

static void name_device(const struct opencl_library *cl, struct opencl_device *d)
{
    char platform_name[NAME_LENGTH_MAX], platform_version[NAME_LENGTH_MAX],
        device_name[NAME_LENGTH_MAX];
    char device_version[NAME_LENGTH_MAX], driver_version[NAME_LENGTH_MAX];
    platform_text(cl, d->platform, OPENCL_PLATFORM_NAME, platform_name);
    platform_text(cl, d->platform, OPENCL_PLATFORM_VERSION, platform_version);
    device_text(cl, d->device, OPENCL_DEVICE_NAME, device_name);
    device_text(cl, d->device, OPENCL_DEVICE_VERSION, device_version);
    device_text(cl, d->device, OPENCL_DRIVER_VERSION, driver_version);
    struct opencl_names names = {
        .platform_name = platform_name,
        .platform_version = platform_version,
        .device_name = device_name,
        .device_version = device_version,
        .driver_version = driver_version,
    };
    opencl_target_text(&names, d->target);
    snprintf(d->version, sizeof(d->version), "%.90s on %.90s", platform_version, device_name);
}

size_t opencl_devices(const struct opencl_library *library, struct opencl_device *ret_devices,
                      size_t max)
{
    static const uint64_t types[] = { OPENCL_DEVICE_TYPE_CPU, OPENCL_DEVICE_TYPE_ALL };
    void *platforms[PLATFORMS_MAX];
    unsigned platform_count = 0;
    size_t count = 0;
    if (library->clGetPlatformIDs(PLATFORMS_MAX, platforms, &platform_count) != 0)
        return 0;
    if (platform_count > PLATFORMS_MAX)
        platform_count = PLATFORMS_MAX;
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        for (unsigned i = 0; i < platform_count && count < max; i++) {
            struct opencl_device d = { .platform = platforms[i] };
            unsigned found = 0;
            if (!platforms[i] ||
                library->clGetDeviceIDs(platforms[i], types[t], 1, &d.device, &found) != 0 ||
                !found)
                continue;
            platforms[i] = NULL; /* at most one device of each platform is returned */
            name_device(library, &d);
            ret_devices[count++] = d;
        }
    }
    return count;
}
