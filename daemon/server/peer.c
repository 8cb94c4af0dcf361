/* SPDX-License-Identifier: MIT */
#include "daemon/server/peer.h"

#include "common/cleanup.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <sys/socket.h>

#define ADMIN_GROUP "kiln-admin"
/* Supplementary groups looked at without allocating; Linux allows 65536. */
#define GROUPS_USUAL 64
#define OVERFLOW_ID 65534u /* Linux's DEFAULT_OVERFLOWUID and DEFAULT_OVERFLOWGID */
#define NO_UID ((uid_t)-1) /* what a socket has whose peer the kernel never knew */

static gid_t group_named(const char *name)
{
    const struct group *group = name && *name ? getgrnam(name) : NULL;
    return group ? group->gr_gid : PEER_NO_GROUP;
}

gid_t peer_admin_group(void) { return group_named(ADMIN_GROUP); }

gid_t peer_publish_group(const char *name) { return group_named(name); }

static unsigned number_in(const char *path)
{
    unsigned number = 0;
    FILE *file = fopen(path, "re");
    bool is_read = file && fscanf(file, "%u", &number) == 1;
    if (file)
        fclose(file);
    return is_read ? number : OVERFLOW_ID;
}

struct peer_overflow peer_overflow(void)
{
    return (struct peer_overflow){ .uid = number_in("/proc/sys/kernel/overflowuid"),
                                   .gid = number_in("/proc/sys/kernel/overflowgid") };
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

/* What the overflow group stands for may be any group at all. */
static bool is_in(int fd, const struct ucred *who, gid_t group,
                  const struct peer_overflow *overflow)
{
    return group != PEER_NO_GROUP && group != overflow->gid &&
           (who->gid == group || is_member(fd, group));
}

static enum role role_of(int fd, const struct ucred *who, const struct peer_groups *groups,
                         const struct peer_overflow *overflow)
{
    if (who->uid == 0 || who->uid == geteuid() || is_in(fd, who, groups->admin, overflow))
        return ROLE_ADMIN;
    return is_in(fd, who, groups->publish, overflow) ? ROLE_PUBLISH : ROLE_USE;
}

enum kiln_code peer_of(int fd, const struct peer_groups *groups,
                       const struct peer_overflow *overflow, struct peer *ret_peer,
                       struct kiln_err *err)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0)
        return kiln_fail_errno(err, errno, "cannot tell who connected");
    bool is_anonymous = who.uid == overflow->uid || who.uid == NO_UID;
    *ret_peer = (struct peer){
        .uid = is_anonymous ? overflow->uid : who.uid,
        .gid = who.gid,
        .pid = who.pid,
        .role = is_anonymous ? ROLE_USE : role_of(fd, &who, groups, overflow),
        .is_anonymous = is_anonymous,
    };
    return KILN_OK;
}

pid_t peer_pid(int fd)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 ? who.pid : 0;
}
