/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Who is at the other end, as the kernel says (SO_PEERCRED, SO_PEERGROUPS): no name service is
 * asked while the daemon serves.
 *
 * Threading  pure system calls; any thread
 */
#include "common/err.h"
#include "common/messages.h"

#include <stdbool.h>
#include <sys/types.h>

struct peer {
    uid_t uid;
    gid_t gid;
    pid_t pid; /* 0 when it lives in a process namespace that we do not see */
    enum role role;
    bool is_anonymous; /* |uid| stands for everybody whom the kernel cannot name here */
};

#define PEER_NO_GROUP ((gid_t)-1)

/* The group whose members are administrators; PEER_NO_GROUP when the host has none.  Asks the name
 * service: at start only. */
gid_t peer_admin_group(void);
/* That of this name, whose members may change what all users share: PEER_NO_GROUP for NULL, "" and
 * one that the host has not.  Asks the name service too. */
gid_t peer_publish_group(const char *name);

struct peer_groups {
    gid_t admin, publish; /* PEER_NO_GROUP: nobody */
};

/* The numbers that the kernel shows in place of users and groups that have none in our user
 * namespace; also those of 'nobody' and 'nogroup'. */
struct peer_overflow {
    uid_t uid;
    gid_t gid;
};
/* As the kernel is set up (/proc/sys/kernel/overflowuid); 65534 where that cannot be read. */
struct peer_overflow peer_overflow(void);

/* ADMIN for root, for our own user and for members of |groups.admin|; PUBLISH for members of
 * |groups.publish|; USE for others, and for whoever is anonymous. */
KILN_MUST_CHECK enum kiln_code peer_of(int fd, const struct peer_groups *groups,
                                       const struct peer_overflow *overflow, struct peer *ret_peer,
                                       struct kiln_err *err);
/* The pid at the other end; 0 when it cannot be told. */
pid_t peer_pid(int fd);
