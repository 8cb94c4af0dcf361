/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The socket that clients connect to.
 *
 * Role       adopts a socket that the service manager opened, or one that an earlier kilnd made and
 *            the manager kept; else makes one.  Replaces the socket of a dead daemon, but refuses
 *            to replace that of a live one
 * Ownership  owns descriptor, file and lock.  Closing removes the file only if it is still this
 *            listener's and the manager does not keep the socket for the next kilnd
 * Threading  before the loop runs, or on its thread
 *
 * A lock on <path>.lock, held while kilnd lives, decides between daemons that start at the same
 * time.
 */
#include "common/base/err.h"
#include "daemon/manager/inherited.h"

#include <sys/types.h>
#include <sys/un.h>

#define LISTENER_LOCK_SUFFIX ".lock"

struct listener {
    int fd; /* owned; listening, non-blocking */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    bool inherited; /* made by the service manager, which also removes it */
    bool kept;      /* the service manager keeps it too: leave the file for the next kilnd */
    bool root_only; /* the host lacks the group, so only root may connect */
    int lock_fd;    /* owned; -1 when inherited */
    dev_t device;   /* of the socket file */
    ino_t inode;
};

#define LISTENER_CLOSED ((struct listener){ .fd = -1, .lock_fd = -1 })

/* Makes a socket.  Members of |group| may connect to root's socket; if the host lacks that
 * group, |root_only| is set. */
KILN_MUST_CHECK enum kiln_code listener_open(const char *path, const char *group,
                                             struct listener *ret_listener, struct kiln_err *err);
/* Adopts a socket that the service manager opened.  Takes |fd|, on success only. */
KILN_MUST_CHECK enum kiln_code listener_adopt(int fd, struct listener *ret_listener,
                                              struct kiln_err *err);

/* The name of kilnd's own socket in the manager's descriptor store.  It identifies the socket's
 * file. */
#define LISTENER_NAME_PREFIX "kiln-listen-"
#define LISTENER_NAME_MAX 64
void listener_name(const struct listener *listener, char name[LISTENER_NAME_MAX]);
/* Adopts a socket that an earlier kilnd made.  Takes the descriptor of |kept|, on success only.
 * KILN_NOT_FOUND, with a message, when |path| no longer leads to it; KILN_BUSY when another daemon
 * uses |path|.  |group| is as for listener_open and may have changed. */
KILN_MUST_CHECK enum kiln_code listener_resume(struct inherited_fd *kept, const char *path,
                                               const char *group, struct listener *ret_listener,
                                               struct kiln_err *err);
/* Whether the socket's file still exists.  If not, no new client can connect. */
bool listener_is_reachable(const struct listener *listener);
/* Accepts a closed listener. */
void listener_close(struct listener *listener);
