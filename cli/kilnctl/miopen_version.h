/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The MIOpen version that a cache belongs to.  Each build of MIOpen has a directory for its users'
 * caches, named <major>.<minor>.<patch>.<tweak>: ~/.cache/miopen/2.17.0.a82233c22/gfx90a68.ukdb.
 *
 * Threading  plain values
 */
#include "cli/fail.h"

#include <stdbool.h>

#define MIOPEN_VERSION_MAX 40

/* Extracts the version, such as "2.17.0.a82233c22", from the |path| of a file in a directory of
 * that name.  Two builds of one release have different versions.  Returns false, and writes
 * nothing, if the directory has another name. */
bool miopen_version_of_path(const char *path, char ret_version[MIOPEN_VERSION_MAX]);
/* Copies a version that a user gave.  Removes the dot at the end of "3.5.2.", the directory name of
 * a build without a commit. */
void miopen_version_take(const char *given, char ret_version[MIOPEN_VERSION_MAX]);
/* Creates a link |cache|/VERSION to |cache|, if |version| needs the link.  MIOpen 3.5 looks for its
 * files in |cache|/VERSION, and earlier releases look in |cache|. */
CLI_MUST_CHECK int miopen_version_link(const char *cache, const char *version,
                                       struct kiln_error *err);
bool miopen_version_is_link(const char *path);
