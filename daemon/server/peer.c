/* SPDX-License-Identifier: MIT */
#include "daemon/server/peer.h"

#include "common/base/cleanup.h"
#include "daemon/name_service.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#define ADMIN_GROUP "kiln-admin"
#define GROUPS_USUAL 64
#define OVERFLOW_ID 65534u /* Linux's DEFAULT_OVERFLOWUID and DEFAULT_OVERFLOWGID */
#define NO_UID ((uid_t)-1) /* Linux does not know the peer */

static enum kiln_code find_group(const char *name, gid_t *ret_gid, struct kiln_err *err)
{
    *ret_gid = PEER_NO_GROUP;
    enum kiln_code rc = name && *name ? name_service_group(name, ret_gid, err) : KILN_OK;
    return rc == KILN_NOT_FOUND ? KILN_OK : rc;
}

enum kiln_code peer_groups_find(const char *publish_group, struct peer_groups *ret_groups,
                                struct kiln_err *err)
{
    struct peer_groups groups;
    enum kiln_code rc = find_group(ADMIN_GROUP, &groups.admin, err);
    if (!rc)
        rc = find_group(publish_group, &groups.publish, err);
    if (!rc)
        *ret_groups = groups;
    return rc;
}

static unsigned read_number(const char *path)
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
    return (struct peer_overflow){ .uid = read_number("/proc/sys/kernel/overflowuid"),
                                   .gid = read_number("/proc/sys/kernel/overflowgid") };
}

static bool contains_group(const gid_t *groups, size_t count, gid_t wanted)
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
        return contains_group(few, size / sizeof(few[0]), wanted);
    if (errno != ERANGE)
        return false;
    KILN_AUTO(mem) gid_t *many = malloc(size);
    if (!many || getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, many, &size) < 0)
        return false;
    return contains_group(many, size / sizeof(*many), wanted);
}

/* Returns whether the peer is a member of |group|.  The overflow gid never matches, because it may
 * stand for any group. */
static bool is_in_group(int fd, const struct ucred *credentials, gid_t group,
                        const struct peer_overflow *overflow)
{
    return group != PEER_NO_GROUP && group != overflow->gid &&
           (credentials->gid == group || is_member(fd, group));
}

static enum role role_of(int fd, const struct ucred *credentials, const struct peer_groups *groups,
                         const struct peer_overflow *overflow)
{
    if (credentials->uid == 0 || credentials->uid == geteuid() ||
        is_in_group(fd, credentials, groups->admin, overflow))
        return ROLE_ADMIN;
    return is_in_group(fd, credentials, groups->publish, overflow) ? ROLE_PUBLISH : ROLE_USE;
}

enum kiln_code peer_of(int fd, const struct peer_groups *groups,
                       const struct peer_overflow *overflow, struct peer *ret_peer,
                       struct kiln_err *err)
{
    struct ucred credentials;
    socklen_t size = sizeof(credentials);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
        return kiln_fail_errno(err, errno, "cannot read the user of a new connection");
    bool is_anonymous = credentials.uid == overflow->uid || credentials.uid == NO_UID;
    *ret_peer = (struct peer){
        .uid = is_anonymous ? overflow->uid : credentials.uid,
        .gid = credentials.gid,
        .pid = credentials.pid,
        .role = is_anonymous ? ROLE_USE : role_of(fd, &credentials, groups, overflow),
        .is_anonymous = is_anonymous,
    };
    return KILN_OK;
}

pid_t peer_pid(int fd)
{
    struct ucred credentials;
    socklen_t size = sizeof(credentials);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 ? credentials.pid : 0;
}
