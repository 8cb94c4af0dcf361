/* SPDX-License-Identifier: MIT */
#include "libclient/connection/transport_socket.h"

#include "common/base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define HOSTS_DIRECTORY "/run/kiln/"

enum kiln_code transport_socket_check(const char *path, struct kiln_err *err)
{
    size_t max_size = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;
    if (strlen(path) == 0)
        return kiln_fail(err, KILN_INVALID, "the socket path is empty");
    if (strlen(path) > max_size)
        return kiln_fail(err, KILN_INVALID,
                         "socket path '%s' has %zu characters, at most %zu are allowed", path,
                         strlen(path), max_size);
    return KILN_OK;
}

/* Writes the name that /etc/group has for |gid|, else the number.  Does not use getgrgid(), which
 * would also ask the network's directory service, and that may hang. */
static void write_group_name(gid_t gid, char *text, size_t size)
{
    /* "NAME:PASSWORD:GID:MEMBERS"; a longer line is read in parts, and the later parts have no
     * colon. */
    char line[512];
    FILE *groups = fopen("/etc/group", "re");
    snprintf(text, size, "%u", (unsigned)gid);
    while (groups && fgets(line, sizeof(line), groups)) {
        const char *password = strchr(line, ':');
        const char *number = password ? strchr(password + 1, ':') : NULL;
        if (number && number[1] >= '0' && number[1] <= '9' && strtoul(number + 1, NULL, 10) == gid)
            snprintf(text, size, "%.*s", (int)(password - line), line);
    }
    if (groups)
        fclose(groups);
}

static enum kiln_code fail_refused(const char *path, struct kiln_err *err)
{
    struct stat seen;
    char group[64];
    if (stat(path, &seen) != 0)
        return kiln_fail_errno(err, errno, "this user may not reach kilnd's socket '%s'", path);
    write_group_name(seen.st_gid, group, sizeof(group));
    if (seen.st_gid != 0 && (seen.st_mode & S_IWGRP))
        return kiln_fail(err, KILN_DENIED,
                         "this user may not connect to kilnd at '%s': ask to be added to the group "
                         "'%s' ('usermod -aG %s USER'; takes effect at the next login)",
                         path, group, group);
    if (seen.st_uid == 0)
        return kiln_fail(
            err, KILN_DENIED,
            "only root may connect to kilnd at '%s': ask an administrator to open it "
            "to a group ('groupadd --system kiln', 'usermod -aG kiln USER', then start "
            "kilnd again)",
            path);
    return kiln_fail(err, KILN_DENIED,
                     "the kilnd at '%s' only serves user %u: set KILN_SOCKET to the socket of "
                     "another kilnd, or start your own with 'kilnd'",
                     path, (unsigned)seen.st_uid);
}

static bool is_hosts(const char *path)
{
    return strncmp(path, HOSTS_DIRECTORY, sizeof(HOSTS_DIRECTORY) - 1) == 0;
}

/* Fails because nothing listens at |path|.  Only root can start the host's kilnd, so the message
 * advises other users to start a private kilnd.  Clients find a private kilnd through
 * XDG_RUNTIME_DIR, so client and kilnd need the same value. */
static enum kiln_code fail_absent(int errnum, const char *path, struct kiln_err *err)
{
    if (!is_hosts(path) || geteuid() == 0)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "no kilnd at '%s' (%s): start one with 'kilnd --socket %s', or set "
                         "KILN_SOCKET to the socket of a running kilnd",
                         path, strerror(errnum), path);
    return kiln_fail(err, KILN_UNAVAILABLE,
                     "no kilnd at '%s' (%s): ask an administrator to start it, or start your own "
                     "with 'kilnd'%s, or set KILN_SOCKET to the socket of a running kilnd",
                     path, strerror(errnum),
                     getenv("XDG_RUNTIME_DIR")
                         ? ""
                         : ", with XDG_RUNTIME_DIR set to a directory of yours for it and "
                           "for its clients");
}

static enum kiln_code connect_failed(int errnum, const char *path, struct kiln_err *err)
{
    switch (errnum) {
    case ENOENT:
    case ECONNREFUSED:
    case ENOTDIR: return fail_absent(errnum, path, err);
    case EAGAIN:
    case EINTR:
        return kiln_fail(err, KILN_BUSY, "kilnd at '%s' cannot accept another connection yet",
                         path);
    case EACCES:
    case EPERM: return fail_refused(path, err);
    default: return kiln_fail_errno(err, errnum, "cannot connect to kilnd at '%s'", path);
    }
}

/* Returns a connected socket, or -1 with errno set.  Blocks: while kilnd's queue of new connections
 * is full, the kernel gives free places to waiting processes, so a non-blocking connect would fail
 * each time. */
static int try_connect(const char *path)
{
    const struct timeval wait = { .tv_usec = TRANSPORT_CONNECT_MS * 1000 };
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) == 0 &&
        connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
        return fd;
    int errnum = errno;
    close(fd);
    errno = errnum;
    return -1;
}

/* Returns KILN_DENIED if the kilnd at |path| runs as an unexpected user.  Uses the uid that Linux
 * recorded for the listener, not the owner of the file.  Does not check in /run/kiln, where only
 * processes that root permits can listen. */
static enum kiln_code check_peer(int fd, const char *path, struct kiln_err *err)
{
    if (is_hosts(path))
        return KILN_OK;
    struct ucred peer = { .uid = (uid_t)-1 };
    socklen_t size = sizeof(peer);
    struct stat hosts;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return kiln_fail_errno(err, errno, "cannot see whose kilnd listens at '%s'", path);
    if (peer.uid == 0 || peer.uid == geteuid() ||
        (stat(HOSTS_DIRECTORY, &hosts) == 0 && hosts.st_uid == peer.uid))
        return KILN_OK;
    return kiln_fail(
        err, KILN_DENIED,
        "the kilnd at '%s' belongs to user %u, who could give you any code to run: set "
        "XDG_RUNTIME_DIR to a directory of yours, or KILN_SOCKET to this socket if "
        "you trust that user",
        path, (unsigned)peer.uid);
}

static enum kiln_code connect_socket(const char *path, bool is_found,
                                     struct transport **ret_transport, struct kiln_err *err)
{
    enum kiln_code rc = transport_socket_check(path, err);
    if (rc)
        return rc;
    KILN_AUTO(fd) int fd = try_connect(path);
    if (fd < 0)
        return connect_failed(errno, path, err);
    if (is_found)
        rc = check_peer(fd, path, err);
    if (rc)
        return rc;
    int connected = fd;
    fd = -1;
    return transport_socket_adopt(connected, ret_transport, err);
}

enum kiln_code transport_socket_connect(const char *path, struct transport **ret_transport,
                                        struct kiln_err *err)
{
    return connect_socket(path, false, ret_transport, err);
}

enum kiln_code transport_socket_connect_found(const char *path, struct transport **ret_transport,
                                              struct kiln_err *err)
{
    return connect_socket(path, true, ret_transport, err);
}
