/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The level below the host's kilnd: what serves where that cannot be had (substitute.h).
 *
 * Role       decides when that is (KILN_FALLBACK, kiln_client_options.fallback), opens connections
 *            to it, says so once on standard error, and tells when kilnd is back
 * Ownership  one for a client; must outlive the transports that it made
 * Threading  any thread
 */
#include "common/transport.h"

struct fallback;

struct fallback_options {
    const char *word;        /* kiln_client_options.fallback; NULL: KILN_FALLBACK says it */
    const char *socket_path; /* kilnd's; borrowed for as long as it lives, like |software| */
    const char *software;    /* for hello */
};

/* KILN_INVALID where |word|, or a variable, has a value that it may not have. */
KILN_MUST_CHECK enum kiln_code fallback_create(const struct fallback_options *options,
                                               struct fallback **ret_fallback,
                                               struct kiln_err *err);
/* Accepts NULL. */
void fallback_destroy(struct fallback *fallback);

/* A connection to kilnd, else to its substitute; codes as transport_socket_connect().  A kilnd
 * that was there before, or that is busy, is waited for, some seconds, before it is given up. */
KILN_MUST_CHECK enum kiln_code fallback_connect(struct fallback *fallback, uint64_t deadline_ns,
                                                struct transport **ret_transport,
                                                struct kiln_err *err);
/* How the greeting on the last connection went; true: the next one is to somebody else.  So it is
 * where a kilnd refuses us, is of another version, or is silent for |patience|. */
bool fallback_greeted(struct fallback *fallback, enum kiln_code rc, const struct kiln_err *err);
/* How long silence is taken for work (KILN_FALLBACK_PATIENCE). */
uint64_t fallback_grace_ns(const struct fallback *fallback);
/* The last connection was not kilnd's, and now a kilnd would serve us: asked before requests; looks
 * every few seconds at most. */
bool fallback_may_leave(struct fallback *fallback);

/* Whether the last connection is the substitute's; |ret_reason|: why it is not kilnd's. */
bool fallback_serves(struct fallback *fallback, char *ret_reason, size_t size);
