/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The names of tuning files, which state what is in them.
 *
 * Threading  pure functions
 */
#include "common/miopen/tuning_text.h"
#include "engine/miopen/names/database_id.h"

enum tuning_format { TUNING_TEXT, TUNING_SQLITE };

/* What a file's name states. MIOpen finds its files by name alone;
 * engine/miopen/names/miopen_files.h has the names. Each name may be followed by .bz2. For devices
 * that MIOpen does not support, kiln uses similar names: sm_90_132.CUDA.fdb.txt,
 * opencl_1a2b3c4d.OpenCL.fdb.txt, sm_90_132_1.1.0.udb. */
struct tuning_file_name {
    enum tuning_kind kind;
    enum tuning_format format;
    char database_id[DATABASE_ID_MAX];
    /* The backend in records, such as "HIP" or "HIP.fusion"; for PerfDbs "" or "batchnorm". */
    char backend[16];
    char version[40]; /* only in user files: "2_17_0_a82233c22", "1.1.0"; otherwise "" */
    bool is_user;
};
/* Parses a file's name. Returns KILN_INVALID if the form, the backend or the device is unknown, or
 * if the device does not use the backend; the message says which. */
KILN_MUST_CHECK enum kiln_code tuning_file_name_parse(const char *name,
                                                      struct tuning_file_name *ret_name,
                                                      struct kiln_err *err);
/* Returns whether MIOpen would look for such a file, that is, whether its device is one of
 * AMD's. */
bool tuning_file_name_is_miopens(const struct tuning_file_name *name);
/* Writes the name that MIOpen gives to such a file. Releases of MIOpen use different names: the
 * result is the name for the release in |name->version|, or for the newest release if the version
 * names none. */
void tuning_file_name_write(const struct tuning_file_name *name, char text[128]);
