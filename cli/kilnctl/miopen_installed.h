/* SPDX-License-Identifier: MIT */
#pragma once

/* Finds the directory share/miopen/db of an installed MIOpen, which has its databases and models.
 *
 * Threading  main thread; reads the environment */
#include <limits.h>
#include <stdbool.h>

/* If MIOPEN_SYSTEM_DB_PATH is set and is not the directory of an overlay, only looks there.
 * Otherwise looks next to libMIOpen.so in LD_LIBRARY_PATH, in ROCM_PATH, in /opt/rocm and in /usr.
 * Returns false if none has the directory; |ret_path| is then where it should be. */
bool miopen_installed_find(char ret_path[PATH_MAX]);
