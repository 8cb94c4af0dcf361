/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reads values from lines of text in /proc and /sys.
 *
 * Threading  any thread
 */
#include <stdbool.h>
#include <stddef.h>

/* Finds a version, such as "580.82.07", in the first line of |path|: the first token of digits with
 * at least one dot between them.  Returns false if there is no such token. */
bool text_file_version(const char *path, char *ret_version, size_t size);
