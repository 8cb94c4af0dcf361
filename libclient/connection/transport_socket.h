/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The transport to kilnd: an AF_UNIX stream socket, descriptors by SCM_RIGHTS.
 *
 * Role       one sendmsg out and one recvmsg in for a request that the daemon answers at once
 * Ownership  the transport owns its socket and every descriptor received but not yet taken
 * Threading  as common/transport.h says
 */
#include "common/transport.h"

/* Whether |path| can be a socket's at all: KILN_INVALID, with the limit, when it is too long. */
KILN_MUST_CHECK enum kiln_code transport_socket_check(const char *path, struct kiln_err *err);
/* Connects, without waiting.
 *   KILN_UNAVAILABLE  nothing listens there; the sentence says how to start kilnd
 *   KILN_BUSY         a daemon is there, its queue of new connections is full
 *   KILN_DENIED       this user may not */
KILN_MUST_CHECK enum kiln_code transport_socket_connect(const char *path,
                                                        struct transport **ret_transport,
                                                        struct kiln_err *err);
/* Whether somebody takes connections there now; does not wait. */
bool transport_socket_answers(const char *path);
/* Around a connected stream socket, which it takes over, also on failure. */
KILN_MUST_CHECK enum kiln_code transport_socket_adopt(int fd, struct transport **ret_transport,
                                                      struct kiln_err *err);
