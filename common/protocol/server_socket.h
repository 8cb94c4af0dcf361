/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The lock and the listening socket of a kilnd.
 *
 * Role       used by kilnd, and by libkiln, which makes both for a private kilnd
 * Ownership  the caller owns the descriptors, which are close-on-exec, and the files
 * Threading  any thread; never blocks
 */
#include "common/base/err.h"

#include <sys/types.h>

/* Locks |path|, which is created if it is missing.  KILN_BUSY if another process holds the lock:
 * |ret_holder| is the process id in the file, or 0. */
KILN_MUST_CHECK enum kiln_code server_lock_take(const char *path, int *ret_fd, pid_t *ret_holder,
                                                struct kiln_err *err);
/* Makes a non-blocking socket that listens at |path|, with |mode| whatever the umask is.  |gid|:
 * the file's group; (gid_t)-1: the process's.  |path| fits sockaddr_un.  Leaves no file after a
 * failure. */
KILN_MUST_CHECK enum kiln_code server_socket_listen(const char *path, mode_t mode, gid_t gid,
                                                    int *ret_fd, struct kiln_err *err);
