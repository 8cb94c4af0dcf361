/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds kiln-transfer.  It has its own file so that tests can replace it.
 *
 * Threading  pure functions of the filesystem
 */
#include <limits.h>
#include <stdbool.h>

/* Finds the program in kilnctl's directory or else in the installed location.  Returns false if it
 * is in neither. */
bool snapshot_program_find(char ret_path[PATH_MAX]);
