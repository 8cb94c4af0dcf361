/* SPDX-License-Identifier: MIT */
#include "libclient/connection/transport_socket.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define HOSTS_DIRECTORY "/run/kiln/"

enum kiln_code transport_socket_check(const char *path, struct kiln_err *err)
{
    size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;
    if (strlen(path) == 0)
        return kiln_fail(err, KILN_INVALID, "the socket path is empty");
    if (strlen(path) > most)
        return kiln_fail(err, KILN_INVALID,
                         "socket path '%s' has %zu characters, a socket's may have %zu", path,
                         strlen(path), most);
    return KILN_OK;
}

/* By its name, or its number where no group has it. */
static void name_group(gid_t gid, char *text, size_t size)
{
    char room[1024]; /* a group of many members does not fit, and goes by its number */
    struct group group, *found = NULL;
    if (getgrgid_r(gid, &group, room, sizeof(room), &found) == 0 && found)
        snprintf(text, size, "%s", found->gr_name);
    else
        snprintf(text, size, "%u", (unsigned)gid);
}

/* Says what would help: who is let in by a group, who by nothing. */
static enum kiln_code refused(const char *path, struct kiln_err *err)
{
    struct stat seen;
    char group[64];
    if (stat(path, &seen) != 0)
        return kiln_fail_errno(err, errno, "this user may not reach kilnd's socket '%s'", path);
    name_group(seen.st_gid, group, sizeof(group));
    if (seen.st_gid != 0 && (seen.st_mode & S_IWGRP))
        return kiln_fail(err, KILN_DENIED,
                         "this user may not connect to kilnd at '%s': ask to be let into the group "
                         "'%s' ('usermod -aG %s USER'; counts from the next login)",
                         path, group, group);
    if (seen.st_uid == 0)
        return kiln_fail(
            err, KILN_DENIED,
            "only root may connect to kilnd at '%s': ask an administrator to open it "
            "to a group ('groupadd --system kiln', 'usermod -aG kiln USER', then start "
            "kilnd again)",
            path);
    return kiln_fail(err, KILN_DENIED,
                     "the kilnd at '%s' is for user %u alone: point KILN_SOCKET at another, or "
                     "start one of your own with 'kilnd'",
                     path, (unsigned)seen.st_uid);
}

/* Users may not start the host's: theirs is found by XDG_RUNTIME_DIR, which both sides need. */
static enum kiln_code nobody_there(int errnum, const char *path, struct kiln_err *err)
{
    bool is_hosts = strncmp(path, HOSTS_DIRECTORY, sizeof(HOSTS_DIRECTORY) - 1) == 0;
    if (!is_hosts || geteuid() == 0)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "no kilnd at '%s' (%s): start one with 'kilnd --socket %s', or point "
                         "KILN_SOCKET at the one that runs",
                         path, strerror(errnum), path);
    return kiln_fail(err, KILN_UNAVAILABLE,
                     "no kilnd at '%s' (%s): have an administrator start it, or start one of your "
                     "own with 'kilnd'%s, or point KILN_SOCKET at the one that runs",
                     path, strerror(errnum),
                     getenv("XDG_RUNTIME_DIR")
                         ? ""
                         : ", XDG_RUNTIME_DIR set to a directory of your own for "
                           "it and for its clients");
}

static enum kiln_code connect_failed(int errnum, const char *path, struct kiln_err *err)
{
    switch (errnum) {
    case ENOENT:
    case ECONNREFUSED:
    case ENOTDIR: return nobody_there(errnum, path, err);
    case EAGAIN:
        return kiln_fail(err, KILN_BUSY, "kilnd at '%s' has no room for a new connection yet",
                         path);
    case EACCES:
    case EPERM: return refused(path, err);
    default: return kiln_fail_errno(err, errnum, "cannot connect to kilnd at '%s'", path);
    }
}

/* A connected socket; -1 with errno set. */
static int try_connect(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    int errnum = errno;
    close(fd);
    errno = errnum;
    return -1;
}

enum kiln_code transport_socket_connect(const char *path, struct transport **ret_transport,
                                        struct kiln_err *err)
{
    enum kiln_code rc = transport_socket_check(path, err);
    if (rc)
        return rc;
    int fd = try_connect(path);
    return fd < 0 ? connect_failed(errno, path, err)
                  : transport_socket_adopt(fd, ret_transport, err);
}

bool transport_socket_answers(const char *path)
{
    int fd = try_connect(path);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}
