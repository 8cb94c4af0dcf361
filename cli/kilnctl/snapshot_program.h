/* SPDX-License-Identifier: MIT */
#pragma once

/* Where kiln-transfer is; a file of its own so that tests can have another one. */
#include <limits.h>
#include <stdbool.h>

/* Beside kilnctl, or where an installed one has it; false: neither. */
bool snapshot_program_find(char ret_path[PATH_MAX]);
