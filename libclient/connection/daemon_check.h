/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks whether the host's kilnd is back and accepts this client, by sending hello on a separate
 * connection.
 *
 * Role       A kilnd that rejects this client does not count as back.  A stopped kilnd (SIGSTOP)
 *            does not count either, although connections to it succeed
 * Ownership  the caller zeroes the struct, and releases it with daemon_check_done
 * Threading  One thread at a time.  Only the poll that starts a check waits: at most 20 ms, for the
 *            reply to hello
 */
#include "libclient/connection/fallback.h"

struct daemon_check {
    /* owned; NULL if no check is in progress */
    struct transport *transport;
    uint64_t begun_ns;
};

/* Returns true once a daemon at the socket of |options| has accepted this client.  Connects at most
 * once every two seconds. */
bool daemon_check_poll(struct daemon_check *check, const struct fallback_options *options);
void daemon_check_postpone(struct daemon_check *check);
void daemon_check_done(struct daemon_check *check);
