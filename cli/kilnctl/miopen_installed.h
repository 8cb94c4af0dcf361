/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds share/miopen/db, the directory with the databases and models of an installed MIOpen.
 *
 * Threading  main thread; reads the environment
 */
#include <limits.h>
#include <stdbool.h>

/* Looks only in MIOPEN_SYSTEM_DB_PATH, unless this variable is not set or names an overlay's
 * directory.  Otherwise looks next to libMIOpen.so in LD_LIBRARY_PATH, in ROCM_PATH, in /opt/rocm
 * and in /usr.  Returns false if there is no such directory; |ret_path| is then where the directory
 * should be. */
bool miopen_installed_find(char ret_path[PATH_MAX]);
