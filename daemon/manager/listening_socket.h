/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Chooses the socket that kilnd listens on: the service manager's own, else the one that an earlier
 * kilnd made and the manager kept, else a new one.
 *
 * Ownership  the listener owns the socket; descriptors that it does not take stay in |inherited|
 * Threading  before the loop runs
 */
#include "daemon/manager/inherited.h"
#include "daemon/server/listener.h"

/* |path| and |group| apply to a socket that kilnd makes. */
KILN_MUST_CHECK enum kiln_code listening_socket_open(struct inherited *inherited, const char *path,
                                                     const char *group,
                                                     struct listener *ret_listener,
                                                     struct kiln_err *err);
/* For `kilnd --private`: adopts the socket that libkiln made (private_kilnd.c) and passed as
 * descriptor 3.  Descriptor 4 is the lock, held until this process ends.  If kilnd was started
 * by hand, makes a new socket. */
KILN_MUST_CHECK enum kiln_code listening_socket_open_private(const char *path,
                                                             struct listener *ret_listener,
                                                             struct kiln_err *err);
/* Asks the manager to close what an earlier kilnd stored and this one does not use; then closes
 * all descriptors that were not taken. */
void listening_socket_drop_unused(struct inherited *inherited);
