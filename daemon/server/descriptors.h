/* SPDX-License-Identifier: MIT */
#pragma once

/* Divides the process's descriptors between connections and the hot set, and raises their limit
 * as far as it goes.  The main thread's. */
#include <stddef.h>

/* What a compiler process costs at most: its socket, its pidfd, what it prints, and the object and
 * the log of the job in hand.  Then three of one that had its last job and is ending, of which
 * there may be as many. */
#define DESCRIPTORS_A_WORKER 8u

struct descriptor_shares {
    unsigned connections;
    unsigned hot_count;
    unsigned workers; /* get what they need first */
};

/* What can be had of |wanted|; says in the log when that is less. */
struct descriptor_shares descriptors_share(struct descriptor_shares wanted);
