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
 * kiln's own ids are sm_90_132 and opencl_1a2b3c4d (common/miopen/device_database_id.h). A package
 * for NVIDIA's GPUs is built for a target, and its id is that target: sm_90, sm_90a. MIOpen has no
 * such ids, so none of its files begins with one.
 *
 * To keep kernels of several versions of MIOpen apart, kiln appends "@" and the version:
 * "gfx906_60@3.2.0". MIOpen has no such ids, either.
 *
 * Threading  plain values
 */
#include "common/base/err.h"
#include "common/miopen/device_database_id.h"

/* Parses an id. The arches of common/target/amdgpu_machines.def tell where the arch ends:
 * "gfx90878" is gfx908 with 120 compute units, because 0x78 is 120. The message of KILN_INVALID
 * describes the form of an id. */
KILN_MUST_CHECK enum kiln_code database_id_parse(struct bytes text, struct database_id *ret_id,
                                                 struct kiln_err *err);
/* Splits |text| at "@". Both parts borrow from |text|; without a version, |ret_version| is empty.
 * Does not check the id. The message of KILN_INVALID describes the form of a version. */
KILN_MUST_CHECK enum kiln_code database_id_split(struct bytes text, struct bytes *ret_id,
                                                 struct bytes *ret_version, struct kiln_err *err);
/* Joins an id and a version; "" means no version. Truncates a version that is too long, so call
 * database_version_check first. */
void database_id_join(const char *id, const char *version, char text[VERSIONED_ID_MAX]);
KILN_MUST_CHECK enum kiln_code database_version_check(struct bytes version, struct kiln_err *err);
/* Returns whether MIOpen uses such an id. MIOpen only has ids for AMD's GPUs. */
bool database_id_is_miopens(const struct database_id *id);
/* Parses the id at the start of a package's file name: "gfx90a68.kdb", "gfx906_60.ukdb",
 * "gfx906_60.kdb.bz2", "gfx90a68.kpkg", "sm_90.kpkg". Returns KILN_INVALID also if MIOpen's file
 * name suffix (.kdb, .ukdb) follows an id that MIOpen does not use. */
KILN_MUST_CHECK enum kiln_code database_id_of_file(const char *file_name,
                                                   struct database_id *ret_id,
                                                   struct kiln_err *err);
