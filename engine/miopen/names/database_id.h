/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * MIOpen's database id: a device's arch and compute units. MIOpen's file names begin with it.
 *
 *   gfx906 with 60     gfx906_60       up to 64 compute units: '_' and decimal
 *   gfx90a with 104    gfx90a68        more: lower-case hexadecimal without '_' (0x68 = 104)
 *   gfx906:xnack+, 60  gfx906_xnack_60 xnack appears only if it is on
 *   gfx90a             gfx90a          without compute units: for every device of the arch
 *
 * kiln's own ids are sm_90_132 and opencl_1a2b3c4d (common/miopen/device_database_id.h).  The id of
 * a package for NVIDIA's GPUs is its target: sm_90, sm_90a.  To keep kernels of several versions of
 * MIOpen apart, kiln appends "@" and the version: "gfx906_60@3.2.0".
 *
 * Threading  plain values
 */
#include "common/base/err.h"
#include "common/miopen/device_database_id.h"

/* Parses an id. The arches of common/target/amdgpu_machines.def determine where the arch ends:
 * "gfx90878" is gfx908 with 120 compute units, because 0x78 is 120. */
KILN_MUST_CHECK enum kiln_code database_id_parse(struct bytes text, struct database_id *ret_id,
                                                 struct kiln_err *err);
/* Splits |text| at "@".  Without a version, |ret_version| is empty.  Does not check the id. */
KILN_MUST_CHECK enum kiln_code database_id_split(struct bytes text, struct bytes *ret_id,
                                                 struct bytes *ret_version, struct kiln_err *err);
/* Omits the "@" if |version| is "". */
void database_id_join(const char *id, const char *version, char text[VERSIONED_ID_MAX]);
KILN_MUST_CHECK enum kiln_code database_version_check(struct bytes version, struct kiln_err *err);
bool database_id_is_miopens(const struct database_id *id);
/* Parses the id at the start of a package's file name: "gfx90a68.kdb", "gfx906_60.ukdb",
 * "gfx906_60.kdb.bz2", "gfx90a68.kpkg", "sm_90.kpkg". The endings .kdb and .ukdb are only allowed
 * after an id of MIOpen. */
KILN_MUST_CHECK enum kiln_code database_id_of_file(const char *file_name,
                                                   struct database_id *ret_id,
                                                   struct kiln_err *err);
