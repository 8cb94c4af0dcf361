/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A fleet's tree on a server, for a compaction.
 *
 * Role       passes requests to a process kiln-transfer --fleet, because kilnctl has no code for
 *            networks. Checks the process's answers, as a malicious server may have taken control
 *            of it
 * Ownership  owns the socket
 * Threading  one thread; calls block until the process answers, or hangs for too long
 */
#include "engine/fleet/fleet_store.h"

struct fleet_remote {
    struct fleet_store store; /* first */
    int socket;               /* owned */
    uint64_t next_id;
};

/* Begins a conversation with the process at the other end of |socket|. Takes ownership of |socket|,
 * even if the call fails. */
KILN_MUST_CHECK enum kiln_code fleet_remote_open(int socket, const char *url,
                                                 struct fleet_remote *ret_remote,
                                                 struct kiln_err *err);
/* The process ends when the socket is closed. */
void fleet_remote_close(struct fleet_remote *remote);
/* Finds out whether the store honours conditions (If-Match), so that two compactions at the same
 * time cannot both replace a pointer. */
KILN_MUST_CHECK enum kiln_code fleet_remote_probe(struct fleet_remote *remote,
                                                  bool *ret_has_conditions, struct kiln_err *err);
