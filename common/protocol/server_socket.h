/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The lock and the listening socket of a kilnd.
 *
 * Role       creates lock and socket; used by kilnd, and by libkiln for a private kilnd
 * Ownership  the caller owns the descriptors, which are close-on-exec, and the files
 * Threading  any thread; never blocks
 */
#include "common/base/err.h"

#include <sys/types.h>

/* Creates |path| if it is missing.  Returns KILN_BUSY if another process holds the lock;
 * |ret_holder| is then the process id stored in the file, or 0. */
KILN_MUST_CHECK enum kiln_code server_lock_take(const char *path, int *ret_fd, pid_t *ret_holder,
                                                struct kiln_err *err);
/* Creates the listening socket |path|, which must fit sockaddr_un.  The umask does not change
 * |mode|; a |gid| of (gid_t)-1 means the process's group.  Leaves no file after a failure. */
KILN_MUST_CHECK enum kiln_code server_socket_listen(const char *path, mode_t mode, gid_t gid,
                                                    int *ret_fd, struct kiln_err *err);
