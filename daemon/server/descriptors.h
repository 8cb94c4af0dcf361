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
/* How many one message queue of ours may hold while another takes its place: the kernel counts what
 * a user's processes have in flight together, against the limit of whoever sends next. */
size_t descriptors_in_flight_most(void);
