/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Database ids of devices: the ids under which tuning records are stored.
 *
 * Role       builds the ids, for kilnd and libkiln alike; engine/miopen/names/database_id.h parses
 *            them
 * Ownership  plain values
 * Threading  pure functions
 *
 * AMD's ids have MIOpen's form: the architecture and the number of compute units.  A number up to
 * 64 is written as '_' and decimal digits (gfx906_60).  A larger number is written in hexadecimal
 * without '_' (gfx90a68 has 0x68 = 104). xnack appears only if it is on: gfx906_xnack_60.
 *
 * NVIDIA's ids are the target and the number of multiprocessors, always in decimal: sm_90_132.  The
 * letter of sm_90a only names an instruction set, so it is left out: sm_90a and sm_90 are the same
 * device.
 *
 * OpenCL's ids are a hash of the whole target, which names device and driver: opencl_1a2b3c4d.
 *
 * MIOpen only knows AMD's ids; the other forms are kiln's.
 */
#include "common/base/bytes.h"
#include "common/target/target.h"

#define DATABASE_ID_MAX 32         /* size of an id's text with the terminating NUL */
#define DATABASE_ID_DECIMAL_MAX 64 /* AMD's compute units are decimal up to this number */
/* Size of MIOpen's version, which has letters, digits and ". _ -". */
#define DATABASE_VERSION_MAX 40
/* Size of an id with a version, such as "gfx90a68@2.17.0.a82233c22", and the terminating NUL. */
#define VERSIONED_ID_MAX (DATABASE_ID_MAX + 1 + DATABASE_VERSION_MAX)

struct database_id {
    char device[DATABASE_ID_MAX]; /* "gfx906", "gfx906_xnack", "sm_90", "opencl_1a2b3c4d" */
    /* On gfx10 and later, the number of work group processors. 0 if the id has no number. */
    unsigned compute_units;
};

/* Writes the id with the number of compute units that the runtime reports.  Returns false if the
 * text would be too long. */
bool database_id_write(const struct database_id *id, char text[DATABASE_ID_MAX]);
/* Writes the id of a device that runs |target| and has |compute_units| compute units (or
 * multiprocessors); OpenCL ids ignore this number.  Returns false if the id would be too long. */
bool database_id_of_device(const struct target *target, unsigned compute_units,
                           char text[DATABASE_ID_MAX]);
/* Returns the default backend ("HIP", "CUDA" or "OpenCL") of the FindDb records of the device
 * |id|. */
const char *database_id_backend(struct bytes id);
/* Checks whether the device |id| may have FindDb records under |backend|.  MIOpen has records of
 * AMD's devices under "HIP" and "OpenCL", and separate records of fusions
 * (common/miopen/tuning_text.h) under both.  Other devices have only their default backend.
 * Returns KILN_INVALID if |backend| is not allowed; the message names the allowed ones. */
KILN_MUST_CHECK enum kiln_code database_id_backend_check(struct bytes id, struct bytes backend,
                                                         struct kiln_err *err);
