/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The socket that clients connect to.
 *
 * Role       takes over one that the service manager opened, or one that an earlier kilnd made and
 *            the manager kept, else makes one; takes over the place of a dead daemon, refuses that
 *            of a live one
 * Ownership  owns descriptor, file and lock; removes the file at close only if it is still ours
 *            and nobody keeps the socket for the next kilnd
 * Threading  before the loop runs, or on its thread
 *
 * A lock on <path>.lock, held while we live, decides between daemons that start at the same time.
 */
#include "common/err.h"

#include <sys/types.h>
#include <sys/un.h>

#define LISTENER_LOCK_SUFFIX ".lock"

struct listener {
    int fd; /* owned; listens, does not block */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    bool inherited; /* made by the service manager, who also removes it */
    bool kept;      /* the service manager has it too: the file stays for who comes next */
    bool root_only; /* the host has no such group: nobody but root may connect */
    int lock_fd;    /* owned; -1 when inherited */
    dev_t device;   /* of the file that we made */
    ino_t inode;
};

#define LISTENER_CLOSED ((struct listener){ .fd = -1, .lock_fd = -1 })

/* Makes one.  |group| may open root's socket beside
 * root; where the host does not have it, |root_only| is set. */
KILN_MUST_CHECK enum kiln_code listener_open(const char *path, const char *group,
                                             struct listener *ret_listener, struct kiln_err *err);
/* A socket that the service manager opened: takes |fd|, on success only. */
KILN_MUST_CHECK enum kiln_code listener_adopt(int fd, struct listener *ret_listener,
                                              struct kiln_err *err);

/* What a socket that we made is called while the service manager keeps it: it tells which file
 * leads to it. */
#define LISTENER_NAME_PREFIX "kiln-listen-"
#define LISTENER_NAME_MAX 64
void listener_name(const struct listener *listener, char name[LISTENER_NAME_MAX]);
/* One that an earlier kilnd made: takes |fd|, on success only.  KILN_NOT_FOUND with a sentence when
 * |path| does not lead to it any more; KILN_BUSY when another daemon lives there.  |group|: as
 * listener_open; it may be another one than before. */
KILN_MUST_CHECK enum kiln_code listener_resume(int fd, const char *name, const char *path,
                                               const char *group, struct listener *ret_listener,
                                               struct kiln_err *err);
/* Accepts one that is closed. */
void listener_close(struct listener *listener);
