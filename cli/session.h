/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The options that all commands of all programs share, and the client they configure.
 *
 * Ownership  strings are borrowed from the command line; the caller owns the client
 * Threading  one thread
 */
#include "cli/options.h"

#include <kiln/client.h>

struct session_options {
    const char *socket; /* NULL for libkiln's default */
    struct option_number timeout;
    bool json;
    bool help;
    bool version;
};

#define SESSION_OPTION_COUNT 5
extern const struct option session_option_table[SESSION_OPTION_COUNT];

/* Returns the timeout of one request for libkiln.  It is 0, libkiln's default, unless --timeout was
 * given. */
int session_timeout_ms(const struct session_options *options);
/* Returns the time, on the monotonic clock, at which work that begins now must end.  It is
 * UINT64_MAX if --timeout was not given. */
uint64_t session_deadline_ns(const struct session_options *options);
/* Opens a client without connecting.  |fallback| has the meaning of
 * kiln_client_options.fallback. */
CLI_MUST_CHECK int session_open(const struct session_options *options, const char *program,
                                const char *fallback, struct kiln_client **ret_client,
                                struct kiln_error *err);

static inline void kiln_client_auto(struct kiln_client **client) { kiln_client_close(*client); }
