/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Closes descriptors that clients sent, off the loop.
 *
 * Role       close(2) of a file on FUSE or on a network filesystem may wait for whoever serves it,
 *            for ever.  A few threads close them fairly by user, at most one thread for each user:
 * a user whose files hang when closed holds up neither the loop nor the executors nor other users.
 * A user's files count from the moment they are received, and closer_join allocates what all of
 * them need, so closer_take cannot fail Ownership  owns what it was given; closer_destroy does not
 * wait for a close that hangs: what its thread still needs is freed by that thread Threading  any
 * thread; nothing blocks
 */
#include "common/err.h"
#include "common/limits.h"

#include <stdint.h>
#include <sys/types.h>

struct closer;

struct closer_limits {
    unsigned threads;       /* at most; they end when there is nothing to do */
    unsigned held_most_uid; /* files of one user: at least as many as one message may bring */
};
#define CLOSER_LIMITS_DEFAULT \
    ((struct closer_limits){ .threads = 16, .held_most_uid = LIMIT_FRAME_DESCRIPTORS + 67 })

KILN_MUST_CHECK enum kiln_code closer_create(const struct closer_limits *limits,
                                             struct closer **ret_closer, struct kiln_err *err);
/* Accepts NULL. */
void closer_destroy(struct closer *closer);
/* A connection of |uid| from which files may come; it leaves when it is closed. */
KILN_MUST_CHECK enum kiln_code closer_join(struct closer *closer, uid_t uid, struct kiln_err *err);
void closer_leave(struct closer *closer, uid_t uid);
/* One more message could bring more than this user may have: read nothing from him. */
bool closer_is_full(struct closer *closer, uid_t uid);
enum closer_room {
    CLOSER_HAS_ROOM,
    CLOSER_IS_FULL,  /* ask again soon: closing takes microseconds, where nothing hangs */
    CLOSER_IS_STUCK, /* has been full for a while, each time that it was asked */
};
enum closer_room closer_room(struct closer *closer, uid_t uid, uint64_t grace_ms);
/* |count| files of |uid| came; each is counted until closer_take has closed it.  Only for one who
 * joined and is not full. */
void closer_charge(struct closer *closer, uid_t uid, unsigned count);
/* Takes |fd|, which |uid| sent and which was charged. */
void closer_take(struct closer *closer, uid_t uid, int fd);
/* Takes a connection of |uid| that nobody reads any more.  One with nothing unread, in which there
 * can be no descriptors, is closed at once. */
void closer_take_socket(struct closer *closer, uid_t uid, int fd);
/* The sentence for it. */
enum kiln_code closer_refuse(uid_t uid, struct kiln_err *err);
