/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The process around the engine: what starts and stops in which order.
 *
 * Start  what the service manager gave us, descriptors, signals, socket, temporary directory, pool,
 * state directory, engine, server; then READY.  A stop that is asked for meanwhile is done once all
 * is there Stop   (SIGTERM, SIGINT) no more connections and requests; what runs may end, for as
 * long as drain_timeout says or until a second signal; then sessions, compilers, engine, loop
 * Threading the main thread
 */
#include "daemon/config/config.h"

/* Serves until told to stop.  Returns the process's exit status: 0 after a stop that was asked
 * for, 1 when it could not start (said in the log).  |config| learns which socket it became;
 * |argc| and |argv| are read again with SIGHUP, as every other source of it. */
int daemon_run(struct config *config, int argc, const char *const *argv);
