/* SPDX-License-Identifier: MIT */
/* The GPUs of this host as sysfs describes them (KFD's topology). No device is opened. */
#include "engine/service/internal.h"
#include "engine/service/packages/packages.h"
#include "engine/service/requests/admin.h"
#include "engine/topology/kfd.h"

static struct json *device_to_json(const char *directory, const struct gpu *gpus, size_t count,
                                   const struct gpu *gpu)
{
    struct json *j = json_object();
    uint64_t memory = kfd_memory(directory, gpu);
    unsigned partitions = kfd_partitions(gpus, count, gpu);
    json_set_u64(j, "node", gpu->node);
    json_set_text(j, "arch", gpu->arch);
    json_set_text(j, "target", gpu->target);
    json_set_u64(j, "compute_units", gpu->compute_units);
    json_set_text(j, "uuid", gpu->uuid);
    json_set_text(j, "database_id", gpu->database_id);
    if (memory)
        json_set_u64(j, "memory", memory);
    json_set_u64(j, "partitions", partitions);
    if (gpu->xcc)
        json_set_u64(j, "xcc", gpu->xcc);
    json_set_text(j, "partition_mode", kfd_partition_mode(partitions, gpu->xcc));
    return j;
}

static enum kiln_code work_devices(struct admin *a)
{
    const char *directory = packages_kfd_directory(a->base.engine);
    KILN_AUTO(mem) struct gpu *gpus = calloc(GPUS_MAX, sizeof(*gpus));
    if (!gpus)
        return kiln_fail(&a->base.err, KILN_NO_MEMORY, "cannot list the GPUs");
    size_t count = 0;
    char skipped[256] = "";
    enum kiln_code rc = kfd_gpus(directory, gpus, &count, skipped, &a->base.err);
    if (rc)
        return rc;
    struct json *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_append(list, device_to_json(directory, gpus, count, &gpus[i]));
    json_set(a->base.answer, "devices", list);
    json_set_text(a->base.answer, "skipped", skipped);
    return KILN_OK;
}

static const struct admin_kind devices_kind = {
    .work_queue = WORK_QUEUE_READ,
    .members = admin_no_members,
    .work = work_devices,
};

ADMIN_HANDLER(devices, devices_kind)
