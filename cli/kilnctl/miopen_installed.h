/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The directory with an installed MIOpen's own databases and models: share/miopen/db.
 *
 * Threading  main thread; reads the environment
 */
#include <limits.h>
#include <stdbool.h>

/* Looks at MIOPEN_SYSTEM_DB_PATH, which excludes all others unless it names an overlay's directory;
 * then next to libMIOpen.so in LD_LIBRARY_PATH, in ROCM_PATH, /opt/rocm and /usr.  False if there
 * is no such directory; |ret_path| is then where it should be. */
bool miopen_installed_find(char ret_path[PATH_MAX]);
