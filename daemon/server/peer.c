/* SPDX-License-Identifier: MIT */
#include "daemon/server/peer.h"

#include "common/cleanup.h"

#include <errno.h>
#include <grp.h>
#include <sys/socket.h>

#define ADMIN_GROUP "kiln-admin"
/* Supplementary groups looked at without allocating; Linux allows 65536. */
#define GROUPS_USUAL 64

static gid_t group_named(const char *name)
{
    const struct group *group = name && *name ? getgrnam(name) : NULL;
    return group ? group->gr_gid : PEER_NO_GROUP;
}

gid_t peer_admin_group(void) { return group_named(ADMIN_GROUP); }

gid_t peer_publish_group(const char *name) { return group_named(name); }

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

static bool is_in(int fd, const struct ucred *who, gid_t group)
{
    return group != PEER_NO_GROUP && (who->gid == group || is_member(fd, group));
}

static enum role role_of(int fd, const struct ucred *who, const struct peer_groups *groups)
{
    if (who->uid == 0 || who->uid == geteuid() || is_in(fd, who, groups->admin))
        return ROLE_ADMIN;
    return is_in(fd, who, groups->publish) ? ROLE_PUBLISH : ROLE_USE;
}

enum kiln_code peer_of(int fd, const struct peer_groups *groups, struct peer *ret_peer,
                       struct kiln_err *err)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0)
        return kiln_fail_errno(err, errno, "cannot tell who connected");
    *ret_peer = (struct peer){
        .uid = who.uid,
        .gid = who.gid,
        .pid = who.pid,
        .role = role_of(fd, &who, groups),
    };
    return KILN_OK;
}

pid_t peer_pid(int fd)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 ? who.pid : 0;
}
