/* SPDX-License-Identifier: MIT */
#pragma once

/* Finds out to which version of MIOpen a cache belongs.  Each build of MIOpen has a directory for
 * its users' caches, such as ~/.cache/miopen/2.17.0.a82233c22.  The directory's name is the
 * version, <major>.<minor>.<patch>.<tweak>, where the tweak is the commit.
 *
 * Threading  plain values */
#include "cli/fail.h"

#include <stdbool.h>

#define MIOPEN_VERSION_MAX 40

/* Takes the version, such as "2.17.0.a82233c22", from the directory in |path|. Different builds of
 * a release have different versions. Returns false, and writes nothing, if the directory's name is
 * not a version. */
bool miopen_version_of_path(const char *path, char ret_version[MIOPEN_VERSION_MAX]);
/* Copies the version that a user gave, without a dot at its end. (The directory of a build whose
 * commit is not known has a name such as "3.5.2.".) */
void miopen_version_take(const char *given, char ret_version[MIOPEN_VERSION_MAX]);
/* MIOpen 3.5 and later look for files in |cache|/VERSION, earlier releases in |cache|. If |version|
 * is 3.5 or later, creates the link |cache|/VERSION, which leads to |cache|. */
CLI_MUST_CHECK int miopen_version_link(const char *cache, const char *version,
                                       struct kiln_error *err);
bool miopen_version_is_link(const char *path);
