/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which socket kilnd listens on: the service manager's own, else the one that an earlier kilnd made
 * and the manager kept, else a new one.
 *
 * Threading  before the loop runs
 */
#include "daemon/manager/inherited.h"
#include "daemon/server/listener.h"

/* |path| and |group| are for a socket of our own. */
KILN_MUST_CHECK enum kiln_code kept_socket_open(struct inherited *inherited, const char *path,
                                                const char *group, struct listener *ret_listener,
                                                struct kiln_err *err);
/* Of `kilnd --private`: the socket that libkiln made (private_kilnd.c) and handed down as
 * descriptor 3, and in 4 the lock, which stays locked until this process ends; else, started by
 * hand, a new one. */
KILN_MUST_CHECK enum kiln_code kept_socket_open_private(const char *path,
                                                        struct listener *ret_listener,
                                                        struct kiln_err *err);
/* Has the manager close what an earlier kilnd left with it and this one does not use; then closes
 * all that nobody has taken. */
void kept_socket_drop(struct inherited *inherited);
