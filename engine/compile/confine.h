/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Confines a compiler process to the files that a compiler needs (Linux Landlock).
 *
 * Role       a source may say #include "/etc/shadow", and the error message would quote it; so
 *            only system folders, the toolchains' own and the private folder can be opened
 * Ownership  holds for this process and all that it starts, for ever
 * Threading  before any thread is started
 */
#include "common/err.h"

/* |folder| may be written to; system folders and what PATH, LD_LIBRARY_PATH, OCL_ICD_VENDORS,
 * KILN_CUDA_PATH and KILN_ROCM_PATH name may be read.  No program that it starts gains privileges.
 * KILN_UNSUPPORTED when the kernel cannot confine files (before 5.19, or switched off). */
KILN_MUST_CHECK enum kiln_code confine_to(const char *folder, struct kiln_err *err);
