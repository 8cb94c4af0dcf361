/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Talks to the service manager while kilnd serves.
 *
 * Role       sends the status line; sends the watchdog's signal while the loop runs and no task of
 *            a work queue is stuck; stores the listening socket in the manager's descriptor store
 *            (docs/decisions, number 12)
 * Ownership  borrows all; the caller embeds the struct
 * Threading  the loop's thread
 */
#include "daemon/loop/timer.h"
#include "daemon/loop/work_queues.h"
#include "daemon/manager/inherited.h"
#include "daemon/server/server.h"
#include "engine/engine.h"

/* A thread that has worked on one task for this time counts as stuck.  The longest normal tasks
 * read a whole package or compact the kernel store, which takes minutes on a slow disk. */
#define MANAGER_STUCK_S 900u

struct manager {
    struct loop *loop; /* borrowed, as are the members below */
    struct engine *engine;
    struct server *server;
    const struct work_queues *work_queues;
    struct listener *listener;
    struct loop_timer watchdog;
    bool is_stuck;
    bool keeps; /* the manager has a descriptor store, which keeps the socket */
    char status[160];
    char note[160]; /* text before |status|; usually "" */
    uint64_t reported_ms;
};

/* |setting| is the value of descriptor_store: "auto", "on" or "off". */
void manager_init(struct manager *manager, struct loop *loop, struct loop_owner *owner,
                  struct listener *listener, const char *setting);
void manager_forget(const char *name);

void manager_ready(struct manager *manager);
void manager_tick(struct manager *manager);
/* |note| is added before the status line. */
void manager_reloading(struct manager *manager);
void manager_reloaded(struct manager *manager, const char *note);
/* Notifies the manager that kilnd is stopping, and that running work may take up to
 * |timeout_ms|. */
void manager_stopping(struct manager *manager, uint64_t timeout_ms);
void manager_close(struct manager *manager);
