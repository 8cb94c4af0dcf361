/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds kiln-transfer.  This file is separate so that tests can replace it.
 *
 * Threading  pure functions of the filesystem
 */
#include <limits.h>
#include <stdbool.h>

/* Looks in kilnctl's directory, then in the installed location.  Returns false if the program is in
 * neither. */
bool snapshot_program_find(char ret_path[PATH_MAX]);
