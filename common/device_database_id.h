/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Database ids of devices: what tuning records are kept by.
 *
 * Role       one spelling on both ends of the socket; engine/miopen/database_id.h reads them
 * Ownership  plain values
 * Threading  pure functions
 *
 *   AMD        MIOpen's own: arch and compute units, decimal after '_' up to 64, bare hexadecimal
 *              above: gfx906_60, gfx90a68; xnack only where it is on: gfx906_xnack_60
 *   NVIDIA     sm_90_132: the target, without the letter that only names a set of instructions
 *              (sm_90a and sm_90 are one device), and its multiprocessors, always decimal
 *   OpenCL     opencl_1a2b3c4d: a hash of the whole target, which names device and driver
 *
 * MIOpen knows the first kind alone; the others are kiln's.
 */
#include "common/bytes.h"
#include "common/target.h"

#define DATABASE_ID_MAX 32         /* with the terminating NUL */
#define DATABASE_ID_DECIMAL_MAX 64 /* compute units of AMD's are decimal up to here */

struct database_id {
    char device[DATABASE_ID_MAX]; /* "gfx906", "gfx906_xnack", "sm_90", "opencl_1a2b3c4d" */
    unsigned compute_units; /* 0: the id names none.  gfx10 and later count work group processors */
};

/* The compute units are what the runtime reports.  False when it would be too long. */
bool database_id_write(const struct database_id *id, char text[DATABASE_ID_MAX]);
/* Of a device that runs |target| and has |compute_units| (multiprocessors); of OpenCL they do not
 * count.  False when it would be too long. */
bool database_id_of_device(const struct target *target, unsigned compute_units,
                           char text[DATABASE_ID_MAX]);
/* The backend that find records of such a device are under where none is named: "HIP", "CUDA" or
 * "OpenCL".  (MIOpen has records of AMD's devices under "OpenCL", too.) */
const char *database_id_backend(struct bytes id);
/* Whether find records of such a device may stand under |backend|: under HIP or OpenCL of AMD's,
 * else under the device's own alone.  KILN_INVALID names those. */
KILN_MUST_CHECK enum kiln_code database_id_backend_check(struct bytes id, struct bytes backend,
                                                         struct kiln_err *err);
