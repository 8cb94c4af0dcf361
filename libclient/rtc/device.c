/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/device.h"

#include "libclient/rtc/preload.h"

#include <ctype.h>
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

/* Larger than hipDeviceProp_t in every version of HIP.  HIP 6 has 1472 bytes. */
#define PROPERTIES_MAX 8192u
/* In all versions, the struct begins with the device's name, which has this size. */
#define NAME_SIZE 256u

typedef int get_device_fn(int *ret_device);
typedef int get_properties_fn(void *ret_properties, int device);

static int is_runtime(struct dl_phdr_info *info, size_t size, void *context)
{
    const char **path = context, *slash = strrchr(info->dlpi_name, '/');
    (void)size;
    if (strncmp(slash ? slash + 1 : info->dlpi_name, "libamdhip64", 11) != 0)
        return 0;
    *path = info->dlpi_name;
    return 1;
}

static void find_functions(get_device_fn **ret_device, get_properties_fn **ret_properties)
{
    const char *path = NULL;
    dl_iterate_phdr(is_runtime, &path);
    void *handle = path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (!handle)
        return;
    void *device = preload_real_dlsym(handle, "hipGetDevice");
    void *properties = preload_real_dlsym(handle, "hipGetDevicePropertiesR0600");
    if (!properties) /* HIP before version 6 */
        properties = preload_real_dlsym(handle, "hipGetDeviceProperties");
    memcpy(ret_device, &device, sizeof(device));
    memcpy(ret_properties, &properties, sizeof(properties));
    dlclose(handle);
}

/* Copies the member gcnArchName.  The member's place in the struct differs between versions of HIP,
 * but no other text behind the device's name begins with "gfx". */
static bool find_architecture(const char properties[PROPERTIES_MAX],
                              char ret_architecture[DEVICE_ARCHITECTURE_MAX])
{
    const char *found = memmem(properties + NAME_SIZE,
                               PROPERTIES_MAX - NAME_SIZE - DEVICE_ARCHITECTURE_MAX, "gfx", 3);
    size_t size = 0;
    while (found && size < DEVICE_ARCHITECTURE_MAX - 1 &&
           (isalnum((unsigned char)found[size]) || (found[size] && strchr(":+-", found[size]))))
        size++;
    if (size <= 3 || found[size])
        return false;
    memcpy(ret_architecture, found, size + 1);
    return true;
}

bool device_architecture(char ret_architecture[DEVICE_ARCHITECTURE_MAX])
{
    char properties[PROPERTIES_MAX] = { 0 };
    get_device_fn *get_device = NULL;
    get_properties_fn *get_properties = NULL;
    int device;
    find_functions(&get_device, &get_properties);
    return get_device && get_properties && get_device(&device) == 0 &&
           get_properties(properties, device) == 0 &&
           find_architecture(properties, ret_architecture);
}
