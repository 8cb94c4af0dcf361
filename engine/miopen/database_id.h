/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * MIOpen's database id: the stem of its files' names, a device's arch and its compute units.
 *
 *   gfx906 with 60     gfx906_60       decimal after '_' up to 64
 *   gfx90a with 104    gfx90a68        bare lower-case hexadecimal above
 *   gfx906:xnack+, 60  gfx906_xnack_60 xnack only where it is on
 *   gfx90a             gfx90a          no compute units: for every device of the arch
 *
 * kiln's own: sm_90_132 and opencl_1a2b3c4d, see common/device_database_id.h; and of packages for
 * NVIDIA's GPUs, whose objects are of a target, that target: sm_90, sm_90a.  MIOpen knows no such
 * id, so none of its files has one.
 *
 * Where kernels of several versions of MIOpen are kept apart, "@" and the version follow:
 * "gfx906_60@3.2.0".  MIOpen itself knows no such id.
 *
 * Threading  plain values
 */
#include "common/device_database_id.h"
#include "common/err.h"

#define DATABASE_VERSION_MAX 40 /* letters, digits and ". _ -" */
#define VERSIONED_ID_MAX (DATABASE_ID_MAX + 1 + DATABASE_VERSION_MAX)

/* Knows every arch of common/amdgpu_machines.def: "gfx90878" is gfx908 with 120.  KILN_INVALID with
 * what an id looks like. */
KILN_MUST_CHECK enum kiln_code database_id_parse(struct bytes text, struct database_id *ret_id,
                                                 struct kiln_err *err);
/* The parts of |text|, which they are borrowed from; without a version |ret_version| is empty.  The
 * id is not looked at.  KILN_INVALID with what a version looks like. */
KILN_MUST_CHECK enum kiln_code database_id_split(struct bytes text, struct bytes *ret_id,
                                                 struct bytes *ret_version, struct kiln_err *err);
/* The other way round; "" is no version.  Cut where a version is too long: check it before. */
void database_id_join(const char *id, const char *version, char text[VERSIONED_ID_MAX]);
KILN_MUST_CHECK enum kiln_code database_version_check(struct bytes version, struct kiln_err *err);
/* Whether MIOpen knows such an id: its files are for AMD's GPUs. */
bool database_id_is_miopens(const struct database_id *id);
/* The id at the start of a package's file name: "gfx90a68.kdb", "gfx906_60.ukdb",
 * "gfx906_60.kdb.bz2", "gfx90a68.kpkg", "sm_90.kpkg".  KILN_INVALID also where the name is that of
 * one of MIOpen's files and the id none of MIOpen's. */
KILN_MUST_CHECK enum kiln_code database_id_of_file(const char *file_name,
                                                   struct database_id *ret_id,
                                                   struct kiln_err *err);
