/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What whoever serves adds to administrative answers of its connections and compilers.
 *
 * Ownership  borrows everything
 * Threading  the loop's thread
 */
#include "daemon/server/server.h"
#include "daemon/workers/pool.h"

/* To 'status': the member "workers"; none where |pool| is NULL. */
void describe_workers(const struct pool *pool, struct json *status);
/* To 'stats'; both may be NULL. */
void describe_counts(const struct server *server, const struct pool *pool, struct json *stats);
