/* SPDX-License-Identifier: MIT */
#include "daemon/server/peer.h"

#include "common/cleanup.h"

#include <errno.h>
#include <grp.h>
#include <sys/socket.h>

#define ADMIN_GROUP "kiln-admin"
/* Supplementary groups looked at without allocating; Linux allows 65536. */
#define GROUPS_USUAL 64

gid_t peer_admin_group(void)
{
    const struct group *group = getgrnam(ADMIN_GROUP);
    return group ? group->gr_gid : PEER_NO_GROUP;
}

static bool holds(const gid_t *groups, size_t count, gid_t wanted)
{
    for (size_t i = 0; i < count; i++) {
        if (groups[i] == wanted)
            return true;
    }
    return false;
}

static bool is_member(int fd, gid_t wanted)
{
    gid_t few[GROUPS_USUAL];
    socklen_t size = sizeof(few);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, few, &size) == 0)
        return holds(few, size / sizeof(few[0]), wanted);
    if (errno != ERANGE)
        return false;
    KILN_AUTO(mem) gid_t *many = malloc(size); /* the kernel said how much it needs */
    if (!many || getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, many, &size) < 0)
        return false;
    return holds(many, size / sizeof(*many), wanted);
}

static enum role role_of(int fd, const struct ucred *who, gid_t admin_group)
{
    if (who->uid == 0 || who->uid == geteuid())
        return ROLE_ADMIN;
    if (admin_group != PEER_NO_GROUP && (who->gid == admin_group || is_member(fd, admin_group)))
        return ROLE_ADMIN;
    return ROLE_USE;
}

enum kiln_code peer_of(int fd, gid_t admin_group, struct peer *ret_peer, struct kiln_err *err)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0)
        return kiln_fail_errno(err, errno, "cannot tell who connected");
    *ret_peer = (struct peer){
        .uid = who.uid,
        .gid = who.gid,
        .pid = who.pid,
        .role = role_of(fd, &who, admin_group),
    };
    return KILN_OK;
}

pid_t peer_pid(int fd)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 ? who.pid : 0;
}
