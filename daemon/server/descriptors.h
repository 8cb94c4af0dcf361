/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Raises the process's descriptor limit as far as allowed and divides it between connections,
 * workers and the hot set.
 *
 * Threading  main thread, before the loop runs
 */
#include <stddef.h>

/* Descriptors of one worker.  Five are for its running process: socket, pidfd, output, and the
 * object and the log of the job.  Three are for an earlier process that is still ending. */
#define DESCRIPTORS_A_WORKER 8u

struct descriptor_shares {
    unsigned connections;
    unsigned hot_count;
    unsigned workers; /* workers get their descriptors first */
};

struct descriptor_shares descriptors_share(struct descriptor_shares wanted);
