/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Database ids of devices: the ids under which tuning records are stored.
 *
 * Role       builds the ids; engine/miopen/names/database_id.h parses them
 * Ownership  plain values
 * Threading  pure functions
 *
 * AMD's ids have MIOpen's form: the architecture and the number of compute units.  A number up to
 * 64 is written as '_' and decimal digits (gfx906_60).  A larger number is written in hexadecimal
 * without '_' (gfx90a68 has 0x68 = 104). xnack appears only if it is on: gfx906_xnack_60.
 *
 * NVIDIA's ids are the target and the decimal number of multiprocessors: sm_90_132.  The letter of
 * sm_90a only names an instruction set, so it is left out.
 *
 * OpenCL's ids are a hash of the whole target, which names device and driver: opencl_1a2b3c4d.
 */
#include "common/base/bytes.h"
#include "common/target/target.h"

#define DATABASE_ID_MAX 32
#define DATABASE_ID_DECIMAL_MAX 64
/* Size of the text of MIOpen's version, which has letters, digits and ". _ -". */
#define DATABASE_VERSION_MAX 40
#define VERSIONED_ID_MAX (DATABASE_ID_MAX + 1 + DATABASE_VERSION_MAX)

struct database_id {
    char device[DATABASE_ID_MAX]; /* "gfx906", "gfx906_xnack", "sm_90", "opencl_1a2b3c4d" */
    /* The id's number: of compute units, or of work group processors on gfx10 and later. 0 if the
     * id has no number. */
    unsigned compute_units;
};

bool database_id_write(const struct database_id *id, char text[DATABASE_ID_MAX]);
/* Writes the database id of a device.  OpenCL ids ignore |compute_units|, which counts
 * multiprocessors on NVIDIA. Returns false if the id would be too long. */
bool database_id_of_device(const struct target *target, unsigned compute_units,
                           char text[DATABASE_ID_MAX]);
const char *database_id_backend(struct bytes id);
/* Checks whether the device |id| may have FindDb records under |backend|.  AMD's devices may have
 * them under "HIP" and "OpenCL", each with and without TUNING_FUSION (common/miopen/tuning_text.h).
 * Other devices have only their default backend.  Returns KILN_INVALID if |backend| is not allowed;
 * the message names the allowed ones. */
KILN_MUST_CHECK enum kiln_code database_id_backend_check(struct bytes id, struct bytes backend,
                                                         struct kiln_err *err);
