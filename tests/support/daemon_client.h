/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/support/daemon_process.h"

#include <kiln/kiln.h>

/* Opens a client of |d| without an in-process cache, so that each fetch reaches kilnd. The
 * caller closes the client. */
static inline struct kiln_client *daemon_client(const struct daemon_process *d)
{
    const struct kiln_client_options options = {
        .size = sizeof(options), .socket_path = d->socket, .timeout_ms = 600000, .cache_entries = -1
    };
    struct kiln_client *client = NULL;
    struct kiln_error err = { 0 };
    must(kiln_client_open(&options, &client, &err), err);
    return client;
}
