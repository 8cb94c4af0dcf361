/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Kernels by number, each of 40 KB that do not compress, compiled by clang; and where each fetch
 * finds them.
 */
#include "tests/support/daemon_process.h"

#include <kiln/kiln.h>

#define NUMBERED_TARGET "gfx942"
#define NUMBERED_BYTES 40000u

/* One that keeps no answers: each fetch reaches the daemon.  Owned by the caller. */
struct kiln_client *numbered_client(const struct daemon_process *d);
/* Must succeed; KILN_TIER_*.  |ret_key| (65 bytes) may be NULL. */
int numbered_fetch(struct kiln_client *client, unsigned number, char *ret_key);
/* The same by a client of its own. */
int numbered_tier(const struct daemon_process *d, unsigned number);
/* Waits until the store has |count| kernels: they are written after they were answered. */
void numbered_stored(struct daemon_process *d, unsigned count);
