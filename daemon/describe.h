/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Adds connections and compilers to the answers of administrative requests.
 *
 * Ownership  borrows everything
 * Threading  the loop's thread
 */
#include "daemon/server/server.h"
#include "daemon/workers/pool.h"

/* |pool| may be NULL. */
void describe_workers(const struct pool *pool, struct json *status);
/* |server| and |pool| may be NULL. */
void describe_counts(const struct server *server, const struct pool *pool, struct json *stats);
