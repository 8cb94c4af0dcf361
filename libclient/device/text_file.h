/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a line of text in /proc or /sys says.
 *
 * Threading  any thread
 */
#include <stdbool.h>
#include <stddef.h>

/* The first word of |path|'s first line that looks like a version, "580.82.07": digits and at least
 * one dot between them.  False where there is none. */
bool text_file_version(const char *path, char *ret_version, size_t size);
