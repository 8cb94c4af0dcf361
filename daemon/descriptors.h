/* SPDX-License-Identifier: MIT */
#pragma once

/* Divides the process's descriptors between connections and the hot set, and raises their limit
 * as far as it goes.  The main thread's. */
#include <stddef.h>

struct descriptor_shares {
    unsigned connections;
    unsigned hot_count;
};

/* What can be had of |wanted|; says in the log when that is less. */
struct descriptor_shares descriptors_share(struct descriptor_shares wanted);
/* How many one message queue of ours may hold while another takes its place: the kernel counts what
 * a user's processes have in flight together, against the limit of whoever sends next. */
size_t descriptors_in_flight_most(void);
