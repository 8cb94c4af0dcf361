/* SPDX-License-Identifier: MIT */
#pragma once

/* Divides the process's descriptors between connections and the hot set, and raises their limit
 * as far as it goes. */

struct descriptor_shares {
    unsigned connections;
    unsigned hot_count;
};

/* What can be had of |wanted|; says in the log when that is less. */
struct descriptor_shares descriptors_share(struct descriptor_shares wanted);
