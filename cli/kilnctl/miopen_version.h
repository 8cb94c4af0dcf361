/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The MIOpen version that a cache belongs to.  Each MIOpen build keeps its user caches in its own
 * directory, named <major>.<minor>.<patch>.<tweak>:
 * ~/.cache/miopen/2.17.0.a82233c22/gfx90a68.ukdb.
 *
 * Threading  plain values
 */
#include <stdbool.h>

#define MIOPEN_VERSION_MAX 40 /* with the terminating NUL */

/* Extracts "2.17.0.a82233c22" from a |path| in such a directory; two builds of one release are two
 * versions.  Returns false and writes nothing for any other path. */
bool miopen_version_of_path(const char *path, char ret_version[MIOPEN_VERSION_MAX]);
