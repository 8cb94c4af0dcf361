/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reads values from lines of text in /proc and /sys.
 *
 * Threading  any thread
 */
#include <stdbool.h>
#include <stddef.h>

/* The first token of |path|'s first line that looks like a version, "580.82.07": digits with at
 * least one dot between them.  False if there is none. */
bool text_file_version(const char *path, char *ret_version, size_t size);
