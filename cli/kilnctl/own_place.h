/* SPDX-License-Identifier: MIT */
#pragma once

/* Finds files that were installed together with kilnctl.
 *
 * Threading  no shared state */
#include <limits.h>
#include <stdbool.h>

/* Writes the absolute path of the file |name| into |ret_path|. |relative| is the path of the file's
 * directory, relative to this program's directory. Returns whether the file can be read. */
bool own_place(const char *relative, const char *name, char ret_path[PATH_MAX]);
