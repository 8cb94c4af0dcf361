/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Raises the process's descriptor limit as far as allowed and divides it between connections,
 * workers and the hot set.
 *
 * Threading  main thread, before the loop runs
 */
#include <stddef.h>

/* The maximum of descriptors that one compiler process costs.  Five while it runs: its socket, its
 * pidfd, its output, and the job's object and log.  Three for an earlier process that is still
 * ending, of which there may be as many. */
#define DESCRIPTORS_A_WORKER 8u

struct descriptor_shares {
    unsigned connections;
    unsigned hot_count;
    unsigned workers; /* served first */
};

/* Returns the part of |wanted| that is available; logs when that is less. */
struct descriptor_shares descriptors_share(struct descriptor_shares wanted);
