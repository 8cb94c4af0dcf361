/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The AMD GPUs of this host, from the kernel driver's sysfs (KFD topology). It reads only text
 * files, so it needs neither a runtime nor access to the devices.
 *
 * Role       lists the GPUs with the database ids that MIOpen and packages use for them
 * Ownership  plain values
 * Threading  any thread
 *
 * A partitioned device (MI300 in CPX mode) has one node for each partition. All of them have the
 * unique id of the device. Kernels before 5.16 do not state gfx_target_version; then the arch comes
 * from the PCI device id (pci_devices.def). xnack is a mode of the process, not of the device, so
 * the database ids do not contain it.
 */
#include "engine/miopen/names/database_id.h"

#define KFD_DIRECTORY "/sys/class/kfd/kfd/topology/nodes"
#define GPUS_MAX 256
#define GPU_UUID_SIZE 24 /* "GPU-", 16 digits, the terminating NUL */

struct gpu {
    unsigned node;            /* KFD's number */
    char arch[16];            /* "gfx90a" */
    char target[32];          /* with sramecc if the kernel states it: "gfx90a:sramecc+" */
    unsigned compute_units;   /* as the runtime reports them: work group processors on gfx10+ */
    uint64_t unique_id;       /* 0: none */
    char uuid[GPU_UUID_SIZE]; /* "GPU-<16 hex>"; "" without a unique_id */
    char database_id[DATABASE_ID_MAX]; /* "gfx90a68" */
    unsigned xcc;                      /* accelerator dies of this node; 0: not stated */
    uint64_t local_memory;             /* bytes; 0: not stated here; kfd_memory sums the banks */
    unsigned memory_banks;
};

/* Lists GPUs in the order of their nodes, without those that this process's cgroup hides. A host
 * without KFD gives KILN_OK and 0 GPUs. A node with invalid files is left out, and |ret_skipped|
 * states the node and the error ("": no such node). */
KILN_MUST_CHECK enum kiln_code kfd_gpus(const char *directory, struct gpu ret_gpus[GPUS_MAX],
                                        size_t *ret_count, char ret_skipped[256],
                                        struct kiln_err *err);

/* Bytes of the device's own memory; 0: not known. |gpu| is a result of kfd_gpus. */
uint64_t kfd_memory(const char *directory, const struct gpu *gpu);

/* The number of |gpus| that are partitions of the same device as |gpu|; 1: the device is not
 * partitioned, or has no unique id. */
unsigned kfd_partitions(const struct gpu *gpus, size_t count, const struct gpu *gpu);
/* AMD's name for the mode of a device with |nodes| nodes of |xcc| dies each: "SPX", "DPX", "TPX",
 * "QPX" or "CPX"; "": the device has no modes, or there is none with these numbers. |nodes| does
 * not count nodes hidden from this process, so the result may be the name of another mode. */
const char *kfd_partition_mode(unsigned nodes, unsigned xcc);
