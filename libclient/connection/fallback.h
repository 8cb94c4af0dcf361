/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Decides which server a client uses: the host's kilnd, or its substitute (substitute.h).
 *
 * Role       prints one notice on standard error when the substitute serves, and reports when kilnd
 *            is back
 * Ownership  each client owns one struct fallback, which must outlive the transports that
 *            fallback_connect returned
 * Threading  any thread
 */
#include "common/protocol/transport.h"

struct fallback;

struct fallback_options {
    const char *mode; /* kiln_client_options.fallback; NULL: use KILN_FALLBACK */
    /* borrowed until fallback_destroy, like |software| */
    const char *socket_path;
    const char *software;
    bool is_found;
};

/* Returns KILN_INVALID if |mode| or an environment variable has an unknown value. */
KILN_MUST_CHECK enum kiln_code fallback_create(const struct fallback_options *options,
                                               struct fallback **ret_fallback,
                                               struct kiln_err *err);
void fallback_destroy(struct fallback *fallback);

/* Tries once to connect to kilnd, or to the substitute if kilnd is not available.  If kilnd was
 * reachable before or is busy, does not use the substitute at once: for some seconds, each call
 * fails with a code of transport_socket_connect(), and the caller tries again. */
KILN_MUST_CHECK enum kiln_code fallback_connect(struct fallback *fallback, uint64_t deadline_ns,
                                                struct transport **ret_transport,
                                                struct kiln_err *err);
/* Call this with the result of the handshake on the last connection.  Returns true if the next
 * connection goes to another server, because kilnd rejected this client, has an incompatible
 * version, or was silent for longer than fallback_grace_ns(). */
bool fallback_on_handshake(struct fallback *fallback, enum kiln_code rc,
                           const struct kiln_err *err);
/* Returns the mode in use, to open another client with the same mode. */
const char *fallback_mode(const struct fallback *fallback);
/* Returns how long a silent kilnd counts as busy (KILN_FALLBACK_PATIENCE). */
uint64_t fallback_grace_ns(const struct fallback *fallback);
/* Returns true if the last connection went to the substitute, but kilnd would accept this client
 * now.  Called before requests.  Checks at most every two seconds. */
bool fallback_may_leave(struct fallback *fallback);

/* Returns whether the last connection went to the substitute.  |ret_reason| then receives the
 * reason. */
bool fallback_serves(struct fallback *fallback, char *ret_reason, size_t size);
