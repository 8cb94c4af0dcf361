/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The AMD GPUs of this host, from the kernel driver's sysfs (KFD topology).  This code reads only
 * text files, so it needs neither a runtime nor access to the devices.
 *
 * Role       lists the GPUs with the database ids that MIOpen and packages use for them
 * Ownership  plain values
 * Threading  any thread
 *
 * A partitioned device (MI300 in CPX mode) has one node for each partition, all with the same
 * unique id.  Kernels before 5.16 do not report gfx_target_version; the arch is then derived from
 * the PCI device id (pci_devices.def).  xnack is a mode of the process, so no id contains it.
 */
#include "engine/miopen/names/database_id.h"

#define KFD_DIRECTORY "/sys/class/kfd/kfd/topology/nodes"
#define GPUS_MAX 256
#define GPU_UUID_SIZE 24 /* "GPU-", 16 digits and the terminating NUL */

struct gpu {
    unsigned node;
    char arch[16];
    char target[32];
    /* The number that the HIP runtime reports; since gfx10, it counts work group processors. */
    unsigned compute_units;
    uint64_t unique_id;
    /* "" if the device has no unique id. */
    char uuid[GPU_UUID_SIZE];
    char database_id[DATABASE_ID_MAX];
    /* Number of accelerator dies of this node; 0 if not known. */
    unsigned xcc;
    /* Bytes of local memory; 0 if only the memory banks state them (see kfd_memory). */
    uint64_t local_memory;
    unsigned memory_banks;
};

/* Lists GPUs in the order of their nodes. Leaves out GPUs that this process's cgroup hides. If KFD
 * is missing, |ret_count| is 0. Also leaves out a node with invalid files; |ret_skipped| names it,
 * or is "". */
KILN_MUST_CHECK enum kiln_code kfd_gpus(const char *directory, struct gpu ret_gpus[GPUS_MAX],
                                        size_t *ret_count, char ret_skipped[256],
                                        struct kiln_err *err);

/* Returns the bytes of memory of |gpu|, a result of kfd_gpus; 0 if not known. */
uint64_t kfd_memory(const char *directory, const struct gpu *gpu);

/* Returns how many of the |gpus| are partitions of the same device as |gpu|. Returns 1 if the
 * device is not partitioned, or has no unique id. */
unsigned kfd_partitions(const struct gpu *gpus, size_t count, const struct gpu *gpu);
/* Returns AMD's name for the partition mode of a device with |nodes| nodes of |xcc| dies each:
 * "SPX", "DPX", "TPX", "QPX" or "CPX". Returns "" if no mode has these numbers. |nodes| does not
 * include nodes that are hidden from this process, so the result may be the name of another
 * mode. */
const char *kfd_partition_mode(unsigned nodes, unsigned xcc);
