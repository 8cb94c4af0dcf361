/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which MIOpen a cache belongs to.  MIOpen keeps its users' caches in a directory for each of its
 * builds, called <major>.<minor>.<patch>.<tweak>: ~/.cache/miopen/2.17.0.a82233c22/gfx90a68.ukdb.
 *
 * Threading  plain values
 */
#include <stdbool.h>

#define MIOPEN_VERSION_MAX 40 /* with the terminating NUL */

/* "2.17.0.a82233c22" for a |path| in such a directory: two builds of a release are two versions.
 * False (and nothing written) for another. */
bool miopen_version_of_path(const char *path, char ret_version[MIOPEN_VERSION_MAX]);
