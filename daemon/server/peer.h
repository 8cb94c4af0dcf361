/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Identifies the peer of a connection by the kernel's data (SO_PEERCRED, SO_PEERGROUPS).  Does not
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
    pid_t pid; /* 0 when the peer is in a process namespace that kilnd cannot see */
    enum role role;
    bool is_anonymous; /* |uid| is the overflow uid, shared by all users whom the kernel cannot map
                          here */
};

#define PEER_NO_GROUP ((gid_t)-1)

/* The group whose members are administrators; PEER_NO_GROUP when the host has none.  Call only at
 * start, because it queries the name service. */
gid_t peer_admin_group(void);
/* The group |name|, whose members may change what all users share.  PEER_NO_GROUP for NULL, ""
 * and a group that the host lacks.  Call only at start, because it queries the name service. */
gid_t peer_publish_group(const char *name);

struct peer_groups {
    gid_t admin, publish; /* PEER_NO_GROUP: no members */
};

/* The ids that the kernel shows for users and groups that are not mapped into this user
 * namespace; also those of 'nobody' and 'nogroup'. */
struct peer_overflow {
    uid_t uid;
    gid_t gid;
};
/* Reads /proc/sys/kernel/overflowuid and overflowgid; 65534 if that fails. */
struct peer_overflow peer_overflow(void);

/* ADMIN for root, for kilnd's own user and for members of |groups.admin|; PUBLISH for members of
 * |groups.publish|; USE for all others, and for anonymous peers. */
KILN_MUST_CHECK enum kiln_code peer_of(int fd, const struct peer_groups *groups,
                                       const struct peer_overflow *overflow, struct peer *ret_peer,
                                       struct kiln_err *err);
/* The pid of the peer; 0 if unknown. */
pid_t peer_pid(int fd);
