/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Identifies the peer of a connection by data from Linux (SO_PEERCRED, SO_PEERGROUPS).  Does not
 * query the name service while the daemon serves.
 *
 * Threading  pure system calls; any thread
 */
#include "common/base/err.h"
#include "common/protocol/messages.h"

#include <stdbool.h>
#include <sys/types.h>

struct peer {
    uid_t uid;
    gid_t gid;
    pid_t pid; /* 0 if the peer is in a process namespace that kilnd cannot see */
    enum role role;
    /* |uid| is the overflow uid, which stands for all users that Linux cannot map here. */
    bool is_anonymous;
};

#define PEER_NO_GROUP ((gid_t)-1)

struct peer_groups {
    gid_t admin;   /* members are administrators; or PEER_NO_GROUP */
    gid_t publish; /* members may change data that all users share; or PEER_NO_GROUP */
};
/* Looks up kiln-admin and |publish_group|, which may be NULL or "".  A missing group is
 * PEER_NO_GROUP. Do not call it on the loop's thread, because it asks the name service. */
KILN_MUST_CHECK enum kiln_code peer_groups_find(const char *publish_group,
                                                struct peer_groups *ret_groups,
                                                struct kiln_err *err);

/* The ids that Linux shows for users and groups that are not mapped into this user namespace. */
struct peer_overflow {
    uid_t uid;
    gid_t gid;
};
/* Reads the ids from /proc.  Returns 65534 for an id that cannot be read. */
struct peer_overflow peer_overflow(void);

/* Identifies the peer of |fd|.  Its role is ADMIN for root, for kilnd's own user and for members of
 * |groups.admin|; PUBLISH for members of |groups.publish|; USE for all others and for anonymous
 * peers. */
KILN_MUST_CHECK enum kiln_code peer_of(int fd, const struct peer_groups *groups,
                                       const struct peer_overflow *overflow, struct peer *ret_peer,
                                       struct kiln_err *err);
/* Returns 0 if unknown. */
pid_t peer_pid(int fd);
