/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks whether the host's kilnd is back and accepts this client, by sending hello on a separate
 * connection.
 *
 * Role       decides whether kilnd is back.  A kilnd that rejects this client is not back, and
 *            neither is one whose process is stopped (SIGSTOP), although connections to it succeed
 * Ownership  the caller zeroes the struct, and releases it with daemon_check_done
 * Threading  One thread at a time.  Only the poll that starts a check waits: at most 20 ms, for the
 *            reply to hello
 */
#include "libclient/connection/fallback.h"

struct daemon_check {
    /* owned; waits for the answer to hello; NULL if no check is in progress */
    struct transport *transport;
    uint64_t begun_ns; /* when the last check began */
};

/* Returns true once a daemon at the socket of |options| has accepted this client.  Connects at most
 * once every two seconds. */
bool daemon_check_poll(struct daemon_check *check, const struct fallback_options *options);
/* Postpones the next check by two seconds. */
void daemon_check_postpone(struct daemon_check *check);
void daemon_check_done(struct daemon_check *check);
