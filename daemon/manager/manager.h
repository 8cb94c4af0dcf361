/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The service manager, while kilnd serves.
 *
 * Role       sends it the status line and the watchdog's signal; gives the listening socket to its
 *            descriptor store (decision 12)
 * Ownership  borrows all; embed it
 * Threading  the loop's thread
 */
#include "daemon/loop/timer.h"
#include "daemon/manager/inherited.h"
#include "daemon/server/server.h"
#include "engine/engine.h"

struct manager {
    struct loop *loop;     /* borrowed, like all below */
    struct engine *engine; /* NULL until it is there */
    struct server *server; /* NULL until it is there */
    struct listener *listener;
    struct loop_timer watchdog;
    bool keeps;           /* it has a descriptor store that takes the socket */
    char status[160];     /* as it was sent last */
    char note[160];       /* stands in front of it; "" as a rule */
    uint64_t reported_ms; /* when */
};

/* |setting|: descriptor_store, "auto", "on" or "off". */
void manager_init(struct manager *manager, struct loop *loop, struct loop_owner *owner,
                  struct listener *listener, const char *setting);
/* Has it close what it keeps under |name|. */
void manager_forget(const char *name);

/* kilnd serves: READY=1.  Gives it the socket and starts the watchdog. */
void manager_ready(struct manager *manager);
/* About once a second: sends the status line where it changed. */
void manager_tick(struct manager *manager);
/* Around a reload; |note| is for the status line, "" for nothing. */
void manager_reloading(struct manager *manager);
void manager_reloaded(struct manager *manager, const char *note);
/* What runs may take |timeout_ms|. */
void manager_stopping(struct manager *manager, uint64_t timeout_ms);
void manager_close(struct manager *manager);
