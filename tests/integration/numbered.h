/* SPDX-License-Identifier: MIT */
#pragma once

/* Numbered kernels that clang compiles, each with 40 KB of incompressible data. */
#include "tests/support/daemon_process.h"

#include <kiln/kiln.h>

#define NUMBERED_TARGET "gfx942"
#define NUMBERED_BYTES 40000u

/* Opens a client without an in-process cache, so that each fetch reaches the daemon. */
struct kiln_client *numbered_client(const struct daemon_process *d);
/* Fetches a kernel, which must succeed. Returns its tier (KILN_TIER_*). |ret_key| (65 bytes) may
 * be NULL. */
int numbered_fetch(struct kiln_client *client, unsigned number, char *ret_key);
int numbered_tier(const struct daemon_process *d, unsigned number);
/* kilnd writes kernels after it has replied. */
void numbered_stored(struct daemon_process *d, unsigned count);
