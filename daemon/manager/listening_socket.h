/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Chooses the socket that kilnd listens on: the one that the service manager opened, else the one
 * that an earlier kilnd created and the manager kept, else a new one.
 *
 * Ownership  the listener owns the socket; descriptors that it does not take stay in |inherited|
 * Threading  before the loop runs
 */
#include "daemon/manager/inherited.h"
#include "daemon/server/listener.h"

/* |path| and |group| apply only if kilnd creates the socket. */
KILN_MUST_CHECK enum kiln_code listening_socket_open(struct inherited *inherited, const char *path,
                                                     const char *group,
                                                     struct listener *ret_listener,
                                                     struct kiln_err *err);
/* Adopts the socket that libkiln created (private_kilnd.c) and passed as descriptor 3, and keeps
 * descriptor 4, which holds the socket's lock, until this process ends.  If libkiln did not start
 * this kilnd, creates a new socket. */
KILN_MUST_CHECK enum kiln_code listening_socket_open_private(const char *path,
                                                             struct listener *ret_listener,
                                                             struct kiln_err *err);
/* Closes the descriptors that |inherited| still owns.  If an earlier kilnd stored them in the
 * manager, asks the manager to drop them. */
void listening_socket_drop_unused(struct inherited *inherited);
