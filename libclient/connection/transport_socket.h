/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The transport to kilnd: an AF_UNIX stream socket, which passes descriptors by SCM_RIGHTS.
 *
 * Role       sends and receives frames.  If the daemon answers at once, a request takes one sendmsg
 *            and one recvmsg
 * Ownership  the transport owns its socket and every received descriptor that was not taken
 * Threading  as documented in common/protocol/transport.h
 */
#include "common/protocol/transport.h"

#define TRANSPORT_CONNECT_MS 50

/* Returns KILN_INVALID, with the limit in the message, if the path is too long. */
KILN_MUST_CHECK enum kiln_code transport_socket_check(const char *path, struct kiln_err *err);
/* Connects.  Waits at most TRANSPORT_CONNECT_MS for a place in the queue of new connections.
 *   KILN_UNAVAILABLE  nothing listens on the socket; the message says how to start kilnd
 *   KILN_BUSY         a daemon listens, but its queue of new connections stayed full
 *   KILN_DENIED       this user has no permission to connect */
KILN_MUST_CHECK enum kiln_code transport_socket_connect(const char *path,
                                                        struct transport **ret_transport,
                                                        struct kiln_err *err);
/* Like transport_socket_connect, for a socket that neither the caller nor KILN_SOCKET named.  The
 * path of this socket may come from XDG_RUNTIME_DIR, which may be another user's directory (after
 * sudo -E or su).  So this function also returns KILN_DENIED if kilnd runs as a user other than
 * root, this user or the owner of /run/kiln. */
KILN_MUST_CHECK enum kiln_code transport_socket_connect_found(const char *path,
                                                              struct transport **ret_transport,
                                                              struct kiln_err *err);
/* Wraps a connected stream socket and takes ownership of it, even on failure. */
KILN_MUST_CHECK enum kiln_code transport_socket_adopt(int fd, struct transport **ret_transport,
                                                      struct kiln_err *err);
