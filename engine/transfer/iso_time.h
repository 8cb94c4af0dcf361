/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Times in the answers of stores, such as 2026-11-30T10:00:00.000Z.
 *
 * Threading  pure functions
 */
#include <stdbool.h>
#include <stdint.h>

/* Reads a time in UTC. |ret_s| is in seconds since 1970. Ignores a fraction of a second. */
bool iso_time_read(const char *text, uint64_t *ret_s);
