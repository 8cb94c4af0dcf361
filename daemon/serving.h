/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What serves: the engine with everything that it needs to run, and the server in front of it.
 *
 * Role       loop, lanes, compilers, transfers, engine, server: what is opened and closed in which
 *            order.  kilnd is a program around it (daemon.c), the engine in libkiln.a a thread of
 *            a job's process (embedded/): so nothing here, nor in what it starts, touches what is
 *            the whole process's: signals, environment, umask, working directory, standard error
 *            (but for the log, whose sink the host sets)
 * Ownership  embed it, zeroed; owns all that it opens, borrows what options point to
 * Threading  one thread, the loop's
 *
 *   serving_begin    the loop is there: the host may add handles of its own, with |owner|
 *   serving_open     all the rest
 *   serving_start    clients are served once loop_run is called
 *   serving_drain    no more connections and requests; what runs may end, for a while; then
 *                    serving_close, after a word to the host (|closing|)
 *   serving_close    without waiting; also where one of the above failed.  loop_run returns when
 *                    all is closed, the host's handles too
 *   serving_end      frees what is left
 */
#include "daemon/executor_uv.h"
#include "daemon/server/closer.h"
#include "daemon/server/server.h"
#include "engine/engine.h"

/* The limits of transfers; their program and its user are the host's to fill in. */
extern const struct transfers_options TRANSFERS_STANDARD;

enum serving_phase { SERVING_RUNS, SERVING_DRAINS, SERVING_CLOSES };

struct serving_options {
    unsigned readers; /* threads that read the stores */
    /* NULL: no compiler can be started; |no_pool| says why, in words for whoever asks for one. */
    const struct pool_options *pool;           /* loop and lanes are filled in here */
    const struct transfers_options *transfers; /* likewise; NULL: there are none */
    const struct engine_options *engine;       /* executor and readers are filled in */
    const struct server_limits *limits;
    struct listener *listener; /* NULL: sessions come by serving_take alone */
    const char *publish_group;
    bool own_user_only; /* of the server, as in server_options */
    const char *no_pool;
};

struct serving {
    struct loop *loop; /* owned, like all down to |server| */
    struct work_queues *work_queues;
    struct pool *pool;
    struct transfers *transfers;
    struct closer *closer;
    struct executor_uv executor;
    struct engine *engine;
    struct server *server;
    struct loop_owner owner;
    struct loop_timer tick;
    enum serving_phase phase;
    uint64_t deadline_ms; /* of draining */
    char no_pool[512];

    /* The host's; set before serving_start. */
    void (*ticked)(struct serving *serving);  /* once a second while it runs; may be NULL */
    bool (*is_busy)(struct serving *serving); /* draining waits for it; may be NULL */
    void (*closing)(struct serving *serving); /* first of all, with everything still there */
};

KILN_MUST_CHECK enum kiln_code serving_begin(struct serving *serving, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code serving_open(struct serving *serving,
                                            const struct serving_options *options,
                                            struct kiln_err *err);
void serving_start(struct serving *serving);
void serving_drain(struct serving *serving, uint64_t timeout_ms);
/* What still runs while draining is given up now. */
void serving_hurry(struct serving *serving);
/* Does nothing where it closes already. */
void serving_close(struct serving *serving);
void serving_end(struct serving *serving);
