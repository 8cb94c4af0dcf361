/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The serving core of kilnd: the engine, everything it needs to run, and the server in front of it.
 *
 * Role       Process-wide state (signals, environment, umask, working directory, standard error)
 *            is left to the program around it (daemon.c), which also sets the log sink
 * Ownership  the caller embeds the struct, zeroed; the struct owns all that it opens, and borrows
 *            what options point to
 * Threading  one thread, the loop's
 *
 *   serving_begin    creates the loop; the program may then add handles of its own, with |owner|
 *   serving_open     opens everything else
 *   serving_start    clients are served once loop_run is called
 *   serving_drain    refuses connections and requests, lets running work finish for a while, then
 *                    calls serving_close
 *   serving_close    notifies the program (|closing|) and closes at once; also called after a
 *                    failure.  loop_run returns when all handles are closed
 *   serving_end      frees what is left
 */
#include "daemon/executor_uv.h"
#include "daemon/server/closer.h"
#include "daemon/server/server.h"
#include "engine/engine.h"

/* daemon.c fills in the path of kiln-transfer and its user. */
extern const struct transfers_options TRANSFERS_STANDARD;

enum serving_phase { SERVING_RUNS, SERVING_DRAINS, SERVING_CLOSES };

struct serving_options {
    unsigned readers;
    /* The members |loop| and |work_queues| need not be set: serving_open sets them. */
    const struct pool_options *pool;
    /* The members |loop| and |work_queues| need not be set: serving_open sets them. */
    const struct transfers_options *transfers;
    const struct fleet_process_options *fleet; /* as for |transfers|; NULL: there is no fleet */
    /* the members |executor| and |readers| need not be set */
    const struct engine_options *engine;
    const struct server_limits *limits;
    struct listener *listener;
    const char *publish_group;
    bool own_user_only;
};

struct serving {
    struct loop *loop; /* owned, as are the members down to |server| */
    struct work_queues *work_queues;
    struct pool *pool;
    struct transfers *transfers;
    struct fleet_process *fleet; /* NULL: none */
    struct closer *closer;
    struct executor_uv executor;
    struct engine *engine;
    struct server *server;
    struct loop_owner owner;
    struct loop_timer tick;
    struct loop_timer share;
    enum serving_phase phase;
    uint64_t deadline_ms;

    /* The program sets these callbacks before serving_start. */
    /* Called once a second; may be NULL. */
    void (*ticked)(struct serving *serving);
    /* Returns whether draining must wait for work of the program; may be NULL. */
    bool (*is_busy)(struct serving *serving);
    void (*closing)(struct serving *serving);
};

KILN_MUST_CHECK enum kiln_code serving_begin(struct serving *serving, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code serving_open(struct serving *serving,
                                            const struct serving_options *options,
                                            struct kiln_err *err);
void serving_start(struct serving *serving);
void serving_drain(struct serving *serving, uint64_t timeout_ms);
/* Ends the wait of serving_drain. */
void serving_hurry(struct serving *serving);
void serving_close(struct serving *serving);
void serving_end(struct serving *serving);
