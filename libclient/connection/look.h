/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks whether a kilnd is back and accepts this client, on a separate connection that says hello.
 *
 * Role       a kilnd that accepts connections but rejects this client, or that is stopped, is not
 *            back
 * Ownership  zero it; look_end
 * Threading  One thread at a time.  Waits for some milliseconds at most, and only after a daemon
 *            has just accepted the connection
 */
#include "common/transport.h"

struct look {
    struct transport *transport; /* owned: not answered yet; NULL: no check is in progress */
    uint64_t begun_ns;           /* when the last check began */
};

/* True once a daemon at |path| has accepted us.  Connects at most once every few seconds. */
bool look_again(struct look *look, const char *path, const char *software);
/* Postpones the next check by some seconds. */
void look_later(struct look *look);
void look_end(struct look *look);
