/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Adds kilnd's configuration, paths, pool and counters to the answers of administrative requests.
 *
 * Ownership  borrows everything; the caller embeds the struct
 * Threading  the loop's thread
 */
#include "daemon/config/config.h"
#include "daemon/config/reload.h"
#include "daemon/server/server.h"
#include "daemon/workers/pool.h"
#include "engine/engine.h"

struct host {
    struct engine_host base;
    const struct config *config;
    const struct reload *reload;
    const struct listener *listener;
    const struct pool *pool;     /* NULL until it exists */
    const struct server *server; /* NULL until it exists */
    uint64_t started_ns;
};

void host_init(struct host *host, const struct config *config, const struct listener *listener,
               const struct reload *reload);
