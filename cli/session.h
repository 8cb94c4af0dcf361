/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The options that all commands share, and the client that these options configure.
 *
 * Ownership  strings are borrowed from the command line; the caller owns the client
 * Threading  one thread
 */
#include "cli/options.h"

#include <kiln/client.h>

struct session_options {
    const char *socket;
    struct option_number timeout;
    bool json;
    bool help;
    bool version;
};

#define SESSION_OPTION_COUNT 5
extern const struct option session_option_table[SESSION_OPTION_COUNT];

int session_timeout_ms(const struct session_options *options);
/* Returns the time, on the monotonic clock, at which work that begins now must end.  Returns
 * UINT64_MAX if --timeout was not given. */
uint64_t session_deadline_ns(const struct session_options *options);
/* Does not connect.  |fallback| is kiln_client_options.fallback. */
CLI_MUST_CHECK int session_open(const struct session_options *options, const char *program,
                                const char *fallback, struct kiln_client **ret_client,
                                struct kiln_error *err);

static inline void kiln_client_auto(struct kiln_client **client) { kiln_client_close(*client); }
