/* SPDX-License-Identifier: MIT */
#pragma once

/* Finds kiln-transfer.  The function has its own file, which tests replace.
 *
 * Threading  pure functions of the filesystem */
#include <limits.h>
#include <stdbool.h>

/* Looks in kilnctl's directory, then where kiln-transfer is installed. Returns false if it is in
 * neither. */
bool snapshot_program_find(char ret_path[PATH_MAX]);
