/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The service manager, while we serve: what it is told, and what it keeps for the next kilnd.
 *
 * Role       status line, watchdog, hot set and socket in its descriptor store (decision 12)
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
    bool may_keep;         /* we would give it descriptors */
    bool keeps;            /* it has a place for them */
    char status[160];      /* as it was last told */
    char note[160];        /* stands in front of it; "" as a rule */
    uint64_t told_ms;      /* when */
    uint64_t kept_ms;      /* when the hot set was given to it */
    uint64_t kept_changes; /* of the hot set, by then */
    uint64_t sequence;     /* of what it was given last */
    bool has_image;        /* it was given any */
    bool is_outdated;      /* and what is in it was forgotten: it must let go of it */
};

/* |setting|: descriptor_store, "auto", "on" or "off". */
void manager_init(struct manager *manager, struct loop *loop, struct loop_owner *owner,
                  struct listener *listener, const char *setting);
/* Whether |name| is that of a descriptor which an earlier kilnd gave to the manager. */
bool manager_knows(const char *name);
/* Fills the hot set from what the manager kept, and has it close what is not used.  Before the
 * engine starts. */
void manager_restore(struct manager *manager, struct inherited *inherited);
/* Has it close what it keeps under |name|. */
void manager_forget(const char *name);

/* Has it close the hot set that it keeps: kernels were forgotten, and must not come back with the
 * next kilnd.  The next tick keeps what is left. */
void manager_forget_hot(struct manager *manager);

/* The hot set that was restored is kept once more; then we serve: READY=1.  Starts the watchdog. */
void manager_ready(struct manager *manager);
/* About once a second: tells and keeps what has changed. */
void manager_tick(struct manager *manager);
/* Around a reload; |note| is for the status line, "" for nothing. */
void manager_reloading(struct manager *manager);
void manager_reloaded(struct manager *manager, const char *note);
/* What runs may take |timeout_ms|. */
void manager_stopping(struct manager *manager, uint64_t timeout_ms);
/* Nothing runs any more: the hot set as it is now is kept. */
void manager_keep_last(struct manager *manager);
void manager_close(struct manager *manager);
