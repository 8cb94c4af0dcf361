/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What every command of every program takes, and the client made of it.
 *
 * Ownership  texts are borrowed from the command line; the client is the caller's
 */
#include "cli/options.h"

#include <kiln/client.h>

struct session_options {
    const char *socket; /* NULL: where libkiln looks */
    struct option_number timeout;
    bool json;
    bool help;
    bool version;
};

#define SESSION_OPTION_COUNT 5
extern const struct option session_option_table[SESSION_OPTION_COUNT];

/* The time one request may take, for libkiln: 0 (its own default) unless --timeout was given. */
int session_timeout_ms(const struct session_options *options);
/* Does not connect yet.  |fallback| as in kiln_client_options. */
CLI_MUST_CHECK int session_open(const struct session_options *options, const char *program,
                                const char *fallback, struct kiln_client **ret_client,
                                struct kiln_error *err);

static inline void kiln_client_auto(struct kiln_client **client) { kiln_client_close(*client); }
