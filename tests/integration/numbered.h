/* SPDX-License-Identifier: MIT */
#pragma once

/* Numbered kernels that clang compiles, each with 40 KB of incompressible data. */
#include "tests/support/daemon_client.h"

#define NUMBERED_TARGET "gfx942"
#define NUMBERED_BYTES 40000u

/* Fetches a kernel, which must succeed. Returns its tier (KILN_TIER_*). |ret_key| (65 bytes) may
 * be NULL. */
int numbered_fetch(struct kiln_client *client, unsigned number, char *ret_key);
int numbered_tier(const struct daemon_process *d, unsigned number);
/* Waits until kilnd has stored |count| kernels, because kilnd stores a kernel after the reply. */
void numbered_stored(struct daemon_process *d, unsigned count);
