/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The kilnd process: the order in which its parts start and stop.
 *
 * Start      A stop that is requested during start-up is carried out when all parts run
 * Stop       on SIGTERM or SIGINT, kilnd accepts no more connections and requests.  Running work
 *            may finish until drain_timeout passes or a second signal comes
 * Threading  the main thread
 */
#include "daemon/config/config.h"

/* Returns the exit status: 0 after a requested stop, 1 if kilnd could not start.  Writes the path
 * of the socket into |config|.  On SIGHUP, reads |argc|, |argv| and all other sources of settings
 * again. */
int daemon_run(struct config *config, int argc, const char *const *argv);
