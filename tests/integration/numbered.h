/* SPDX-License-Identifier: MIT */
#pragma once

/* Kernels that differ in their number. clang compiles them, each to 40 KB of incompressible
 * data. */
#include "tests/support/daemon_client.h"

#define NUMBERED_TARGET "gfx942"
#define NUMBERED_BYTES 40000u

/* Fetches the kernel |number|, which must succeed. Returns its tier (KILN_TIER_*). |ret_key| (65
 * bytes) may be NULL. */
int numbered_fetch(struct kiln_client *client, unsigned number, char *ret_key);
int numbered_tier(const struct daemon_process *d, unsigned number);
/* Waits until kilnd has stored |count| kernels, because it replies before it stores them. */
void numbered_stored(struct daemon_process *d, unsigned count);
