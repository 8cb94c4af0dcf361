/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The counter by which kilnd tells the user's clients that tuning records have changed.
 *
 * Role       maps the memory file of kilnd's reply; from then on, a look is one load
 * Ownership  the caller owns a struct watch, and calls watch_close
 * Threading  one thread at a time; kilnd changes the counter at any time
 */
#include "libclient/client.h"

struct watch {
    const _Atomic uint64_t *counter; /* owned mapping; NULL: none */
};

/* Requests the file of the current connection, and maps it in place of the previous one. On
 * failure, keeps the previous one: the kilnd that it came from may have ended, and the counter then
 * does not change any longer. */
KILN_MUST_CHECK enum kiln_code watch_open(struct watch *watch, struct kiln_client *client,
                                          uint64_t deadline_ns, struct failure *failure);
void watch_close(struct watch *watch);
/* Returns the counter, or 0 if there is none. */
uint64_t watch_read(const struct watch *watch);
