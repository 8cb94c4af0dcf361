/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Closes descriptors that clients sent, on other threads than the loop's.
 *
 * Role       close(2) of a file on FUSE or on a network filesystem can wait for its server for
 *            ever.  So at most one thread at a time closes the files of a user.  A file counts
 *            towards its user's limit from its reception until it is closed. closer_join allocates
 *            the memory for all files of a user, so closer_take cannot fail
 * Ownership  owns the descriptors that it takes.  closer_destroy does not wait for a close that
 *            hangs; the thread of that close frees the memory that it still uses
 * Threading  any thread; nothing blocks
 */
#include "common/base/err.h"
#include "common/protocol/limits.h"

#include <stdint.h>
#include <sys/types.h>

struct closer;

struct closer_limits {
    unsigned threads; /* maximum number of threads; an idle thread ends */
    /* Maximum number of files of one user; at least the number of files in the largest message. */
    unsigned held_max_uid;
};
#define CLOSER_LIMITS_DEFAULT \
    ((struct closer_limits){ .threads = 16, .held_max_uid = LIMIT_FRAME_DESCRIPTORS + 67 })

KILN_MUST_CHECK enum kiln_code closer_create(const struct closer_limits *limits,
                                             struct closer **ret_closer, struct kiln_err *err);
void closer_destroy(struct closer *closer);
/* Registers a connection of |uid| that may send files.  Call closer_leave when it is closed. */
KILN_MUST_CHECK enum kiln_code closer_join(struct closer *closer, uid_t uid, struct kiln_err *err);
void closer_leave(struct closer *closer, uid_t uid);
/* Returns true if the files of one more message could exceed the user's limit.  Then do not read
 * from this user. */
bool closer_is_full(struct closer *closer, uid_t uid);
enum closer_state {
    CLOSER_HAS_SPACE,
    /* closer_is_full is true.  Closing takes microseconds unless a file hangs. */
    CLOSER_IS_FULL,
    CLOSER_IS_STUCK, /* the state was CLOSER_IS_FULL at every check for |grace_ms| */
};
enum closer_state closer_check(struct closer *closer, uid_t uid, uint64_t grace_ms);
/* Counts |count| received files toward the user's limit.  Each counts until closer_take has closed
 * it.  The user must have joined, and closer_is_full must be false. */
void closer_charge(struct closer *closer, uid_t uid, unsigned count);
void closer_take(struct closer *closer, uid_t uid, int fd);
/* Closes a connection.  If it has no unread data, closes it at once: it then has no unread
 * descriptors, whose closing could block.  Otherwise, another thread closes it. */
void closer_take_socket(struct closer *closer, uid_t uid, int fd);
enum kiln_code closer_refuse(uid_t uid, struct kiln_err *err);
