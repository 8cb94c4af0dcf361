/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The lock and the listening socket of a kilnd.
 *
 * Role       creates both; used by kilnd, and by libkiln for a private kilnd
 * Ownership  the caller owns the descriptors, which are close-on-exec, and the files
 * Threading  any thread; never blocks
 */
#include "common/base/err.h"

#include <sys/types.h>

/* Locks |path|, and creates it if it is missing.  Returns KILN_BUSY if another process holds the
 * lock; |ret_holder| is then the process id stored in the file, or 0. */
KILN_MUST_CHECK enum kiln_code server_lock_take(const char *path, int *ret_fd, pid_t *ret_holder,
                                                struct kiln_err *err);
/* Creates a non-blocking socket that listens at |path|, which must fit sockaddr_un.  The file gets
 * |mode|, which the umask does not change, and the group |gid|; (gid_t)-1 means the group of the
 * process.  Leaves no file after a failure. */
KILN_MUST_CHECK enum kiln_code server_socket_listen(const char *path, mode_t mode, gid_t gid,
                                                    int *ret_fd, struct kiln_err *err);
