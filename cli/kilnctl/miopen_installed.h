/* SPDX-License-Identifier: MIT */
#pragma once

/* Finds the directory share/miopen/db of an installed MIOpen, which has its databases and models.
 *
 * Threading  main thread; reads the environment */
#include <limits.h>
#include <stdbool.h>

/* Finds the directory share/miopen/db of the installed MIOpen. If MIOPEN_SYSTEM_DB_PATH is set and
 * is not the directory of an overlay, only looks there.
 * Otherwise looks next to libMIOpen.so in LD_LIBRARY_PATH, in ROCM_PATH, in /opt/rocm and in /usr.
 * If the directory share/miopen/db is in none of these places, returns false and sets |ret_path| to
 * the path where it should be. */
bool miopen_installed_find(char ret_path[PATH_MAX]);
