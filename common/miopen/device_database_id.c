/* SPDX-License-Identifier: MIT */
#include "common/miopen/device_database_id.h"

#include "common/miopen/tuning_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NVIDIAS "sm_"
#define OPENCLS "opencl_"

static bool starts_with(struct bytes text, const char *start)
{
    return text.size >= strlen(start) && memcmp(text.data, start, strlen(start)) == 0;
}

const char *database_id_backend(struct bytes id)
{
    enum target_family family = starts_with(id, NVIDIAS)   ? TARGET_NVIDIA
                                : starts_with(id, OPENCLS) ? TARGET_OPENCL
                                                           : TARGET_AMDGPU;
    return target_backend(family);
}

enum kiln_code database_id_backend_check(struct bytes id, struct bytes backend,
                                         struct kiln_err *err)
{
    const char *own = database_id_backend(id), *other = target_backend(TARGET_OPENCL);
    /* MIOpen has records of AMD's devices under OpenCL, too, and separate records of fusions. */
    bool has_other = strcmp(own, target_backend(TARGET_AMDGPU)) == 0;
    struct bytes base = has_other ? tuning_backend_base(backend) : backend;
    if (bytes_equal_text(base, own) || (has_other && bytes_equal_text(base, other)))
        return KILN_OK;
    return kiln_fail(err, KILN_INVALID, "find records of %.*s have the backend %s%s%s, not '%.*s'",
                     (int)(id.size < DATABASE_ID_MAX ? id.size : DATABASE_ID_MAX),
                     (const char *)id.data, own, has_other ? " or " : "", has_other ? other : "",
                     (int)(backend.size < 40 ? backend.size : 40), (const char *)backend.data);
}

bool database_id_write(const struct database_id *id, char text[DATABASE_ID_MAX])
{
    char whole[2 * DATABASE_ID_MAX];
    bool is_decimal = id->compute_units <= DATABASE_ID_DECIMAL_MAX ||
                      starts_with(bytes_of_text(id->device), NVIDIAS);
    if (id->compute_units == 0)
        snprintf(whole, sizeof(whole), "%s", id->device);
    else if (is_decimal)
        snprintf(whole, sizeof(whole), "%s_%u", id->device, id->compute_units);
    else
        snprintf(whole, sizeof(whole), "%s%x", id->device, id->compute_units);
    if (strlen(whole) >= DATABASE_ID_MAX)
        return false;
    memcpy(text, whole, strlen(whole) + 1);
    return true;
}

static bool name_device(const struct target *target, char device[DATABASE_ID_MAX])
{
    char arch[LIMIT_TARGET_TEXT];
    int size = 0;
    target_arch(target, arch, sizeof(arch));
    switch (target->family) {
    case TARGET_AMDGPU:
        size = snprintf(device, DATABASE_ID_MAX, "%s%s", arch,
                        strstr(target->text, ":xnack+") ? "_xnack" : "");
        break;
    case TARGET_NVIDIA:
        size = snprintf(device, DATABASE_ID_MAX, NVIDIAS "%.*s",
                        (int)strspn(arch + strlen(NVIDIAS), "0123456789"), arch + strlen(NVIDIAS));
        break;
    case TARGET_OPENCL: {
        uint64_t hash = bytes_hash(bytes_of_text(target->text), 0);
        size =
            snprintf(device, DATABASE_ID_MAX, OPENCLS "%08" PRIx32, (uint32_t)(hash ^ hash >> 32));
        break;
    }
    }
    return size < DATABASE_ID_MAX;
}

bool database_id_of_device(const struct target *target, unsigned compute_units,
                           char text[DATABASE_ID_MAX])
{
    struct database_id id = { .compute_units =
                                  target->family == TARGET_OPENCL ? 0 : compute_units };
    return name_device(target, id.device) && database_id_write(&id, text);
}
