/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The AMD GPUs of this host, from the kernel driver's sysfs (KFD topology); nothing is opened but
 * text files, so it works without a runtime and without access to the devices.
 *
 * Role       who is here, and by which database id MIOpen and the packages know them
 * Ownership  plain values
 * Threading  any thread
 *
 * A partitioned device (MI300 in CPX mode) is one node for each partition, all with the unique id
 * of the whole.  Kernels before 5.16 do not state gfx_target_version: there the arch comes from the
 * PCI device id (pci_devices.def).  xnack is a mode of the process, not of the device, so database
 * ids are those without it.
 */
#include "engine/miopen/database_id.h"

#define KFD_DIRECTORY "/sys/class/kfd/kfd/topology/nodes"
#define GPUS_MAX 256
#define GPU_UUID_SIZE 24 /* "GPU-", 16 digits, the terminating NUL */

struct gpu {
    unsigned node;            /* KFD's number */
    char arch[16];            /* "gfx90a" */
    char target[32];          /* with sramecc where the kernel tells it: "gfx90a:sramecc+" */
    unsigned compute_units;   /* as the runtime reports them: work group processors on gfx10+ */
    uint64_t unique_id;       /* 0 when there is none */
    char uuid[GPU_UUID_SIZE]; /* "GPU-<16 hex>"; "" without a unique_id */
    char database_id[DATABASE_ID_MAX]; /* "gfx90a68" */
    unsigned xcc;                      /* accelerator dies of this node; 0: not told */
    uint64_t local_memory;             /* bytes; 0: not told here, but see kfd_memory */
    unsigned memory_banks;             /* that kfd_memory looks at */
};

/* In the order of nodes; CPUs, and GPUs that this process's cgroup hides, are left out.  No KFD at
 * all is KILN_OK and 0 GPUs.  A node whose files make no sense is left out and named in
 * |ret_skipped| with what is wrong ("" when there is none). */
KILN_MUST_CHECK enum kiln_code kfd_gpus(const char *directory, struct gpu ret_gpus[GPUS_MAX],
                                        size_t *ret_count, char ret_skipped[256],
                                        struct kiln_err *err);

/* Bytes of the device's own memory, of |gpu| as kfd_gpus told it; 0: not known. */
uint64_t kfd_memory(const char *directory, const struct gpu *gpu);

/* How many of |gpus| are partitions of the device that |gpu| is one of; 1: it is not partitioned,
 * or has no unique id. */
unsigned kfd_partitions(const struct gpu *gpus, size_t count, const struct gpu *gpu);
/* What AMD calls the mode of a device with that many |nodes| of |xcc| dies each: "SPX", "DPX",
 * "TPX", "QPX", "CPX"; "": a device that has no modes, or numbers that are none.  Nodes that are
 * hidden from this process are not counted, so that the mode may look like another. */
const char *kfd_partition_mode(unsigned nodes, unsigned xcc);
