/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The AMD GPUs of this host, from the kernel driver's sysfs (KFD topology); nothing is opened but
 * text files, so it works without a runtime and without access to the devices.
 *
 * Threading  any thread
 */
#include "engine/miopen/database_id.h"

#define KFD_FOLDER "/sys/class/kfd/kfd/topology/nodes"
#define GPUS_MOST 256

struct gpu {
    unsigned node;          /* KFD's number */
    char arch[16];          /* "gfx90a" */
    unsigned compute_units; /* as the runtime reports them: work group processors on gfx10+ */
    uint64_t unique_id;     /* 0 when there is none */
    char uuid[24];          /* "GPU-<16 hex>"; "" without a unique_id */
    char database_id[DATABASE_ID_MOST]; /* "gfx90a68" */
};

/* In the order of nodes; CPUs are left out.  No KFD at all is KILN_OK and 0 GPUs.  A node whose
 * files make no sense is left out and named in |ret_skipped| (may be ""). */
KILN_MUST_CHECK enum kiln_code kfd_gpus(const char *folder, struct gpu ret_gpus[GPUS_MOST],
                                        size_t *ret_count, char ret_skipped[256],
                                        struct kiln_err *err);
