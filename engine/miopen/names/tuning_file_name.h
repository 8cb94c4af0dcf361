/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The names of tuning files. A name states what is in the file.
 *
 * Threading  pure functions
 */
#include "common/miopen/tuning_text.h"
#include "engine/miopen/names/database_id.h"

enum tuning_format { TUNING_TEXT, TUNING_SQLITE };

/* MIOpen finds its files by name alone (miopen_files.h).  A name may be followed by .bz2.  For
 * devices that MIOpen does not support, kiln uses similar names: sm_90_132.CUDA.fdb.txt,
 * opencl_1a2b3c4d.OpenCL.fdb.txt, sm_90_132_1.1.0.udb. */
struct tuning_file_name {
    enum tuning_kind kind;
    enum tuning_format format;
    char database_id[DATABASE_ID_MAX];
    /* "HIP", "HIP.fusion"; for PerfDbs "" or "batchnorm". */
    char backend[16];
    char version[40]; /* only in user files: "2_17_0_a82233c22", "1.1.0" */
    bool is_user;
};
/* Returns KILN_INVALID if the form, the backend or the device is unknown, or if the device does not
 * use the backend. */
KILN_MUST_CHECK enum kiln_code tuning_file_name_parse(const char *name,
                                                      struct tuning_file_name *ret_name,
                                                      struct kiln_err *err);
bool tuning_file_name_is_miopens(const struct tuning_file_name *name);
/* Writes the name that the release |name->version| of MIOpen uses, by default the newest
 * release. */
void tuning_file_name_write(const struct tuning_file_name *name, char text[128]);
