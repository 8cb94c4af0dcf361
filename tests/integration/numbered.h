/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Numbered kernels, compiled by clang, each with 40 KB that do not compress, and the tier of each
 * fetch.
 */
#include "tests/support/daemon_process.h"

#include <kiln/kiln.h>

#define NUMBERED_TARGET "gfx942"
#define NUMBERED_BYTES 40000u

/* A client without an in-process cache, so each fetch reaches the daemon. The caller owns it. */
struct kiln_client *numbered_client(const struct daemon_process *d);
/* Fetches a kernel, which must succeed. Returns KILN_TIER_*. |ret_key| (65 bytes) may be NULL. */
int numbered_fetch(struct kiln_client *client, unsigned number, char *ret_key);
/* The same with a new client. */
int numbered_tier(const struct daemon_process *d, unsigned number);
/* Waits until the store has |count| kernels. kilnd writes them after it has replied. */
void numbered_stored(struct daemon_process *d, unsigned count);
