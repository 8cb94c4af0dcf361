/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The socket that clients connect to.
 *
 * Role       Replaces the socket of a dead daemon, but not that of a daemon that is alive.  Of
 *            several daemons that start at the same time, the one that gets the lock on <path>.lock
 *            wins
 * Ownership  owns descriptor, file and lock.  Closing removes the file if it is still this
 *            listener's, unless the manager keeps the socket for the next kilnd
 * Threading  before the loop runs, or on its thread
 */
#include "common/base/err.h"
#include "daemon/manager/inherited.h"

#include <sys/types.h>
#include <sys/un.h>

#define LISTENER_LOCK_SUFFIX ".lock"

struct listener {
    int fd; /* owned; non-blocking */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    bool inherited; /* created by the service manager, which also removes it */
    /* The service manager keeps the socket for the next kilnd, so the file stays. */
    bool kept;
    bool root_only; /* only root may connect, because the host does not have the group */
    int lock_fd;    /* owned; -1 if the socket is inherited */
    dev_t device;
    ino_t inode;
};

#define LISTENER_CLOSED ((struct listener){ .fd = -1, .lock_fd = -1 })

/* Members of |group| may connect to root's socket; |root_only| is set if that group does not
 * exist. */
KILN_MUST_CHECK enum kiln_code listener_open(const char *path, const char *group,
                                             struct listener *ret_listener, struct kiln_err *err);
/* Owns |fd| if it succeeds. */
KILN_MUST_CHECK enum kiln_code listener_adopt(int fd, struct listener *ret_listener,
                                              struct kiln_err *err);

/* Prefix of the name of kilnd's socket in the manager's descriptor store.  The rest of the name
 * identifies the socket's file. */
#define LISTENER_NAME_PREFIX "kiln-listen-"
#define LISTENER_NAME_MAX 64
void listener_name(const struct listener *listener, char name[LISTENER_NAME_MAX]);
/* Uses a socket that an earlier kilnd stored in the service manager.  Owns the descriptor of |kept|
 * if it succeeds.  Returns KILN_NOT_FOUND, with a message, if |path| no longer names this socket,
 * and KILN_BUSY if another daemon uses |path|.  |group| is as for listener_open, and may have
 * changed since the socket was created. */
KILN_MUST_CHECK enum kiln_code listener_resume(struct inherited_fd *kept, const char *path,
                                               const char *group, struct listener *ret_listener,
                                               struct kiln_err *err);
/* Returns false if the socket's file is gone, so that no new client can connect. */
bool listener_is_reachable(const struct listener *listener);
void listener_close(struct listener *listener);
