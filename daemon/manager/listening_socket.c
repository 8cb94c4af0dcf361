/* SPDX-License-Identifier: MIT */
#include "daemon/manager/listening_socket.h"

#include "common/log/log.h"
#include "daemon/manager/manager.h"

#include "common/base/fs.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#define HANDED_SOCKET 3
#define HANDED_LOCK 4

/* Prefix of the names of descriptors that kilnd stores in the service manager.  kilnd stores only
 * the listening socket.  Older versions also stored other descriptors, which are not used. */
#define OURS_PREFIX "kiln-"

static enum kiln_code find_given(struct inherited *in, struct inherited_fd **ret_item,
                                 struct kiln_err *err)
{
    size_t count = 0;
    for (size_t i = 0; i < in->count; i++) {
        if (strncmp(in->items[i].name, OURS_PREFIX, strlen(OURS_PREFIX)) == 0)
            continue;
        *ret_item = &in->items[i];
        count++;
    }
    if (count > 1)
        return kiln_fail(
            err, KILN_INVALID,
            "LISTEN_FDS: the service manager passed %zu sockets, but kilnd accepts exactly one",
            count);
    return KILN_OK;
}

static enum kiln_code resume_listener(struct inherited *in, const char *path, const char *group,
                                      struct listener *ret_listener, struct kiln_err *err)
{
    struct inherited_fd *kept = inherited_find(in, LISTENER_NAME_PREFIX, 0);
    struct kiln_err why = KILN_ERR_INIT;
    if (!kept)
        return KILN_NOT_FOUND;
    enum kiln_code rc = listener_resume(kept, path, group, ret_listener, &why);
    if (rc == KILN_BUSY)
        *err = why;
    if (rc == KILN_OK || rc == KILN_BUSY)
        return rc;
    log_event(LOG_EVENT_descriptor_dropped, NULL,
              "'%.64s', which the service manager stored, is not used: %s", kept->name, why.text);
    return KILN_NOT_FOUND;
}

enum kiln_code listening_socket_open(struct inherited *in, const char *path, const char *group,
                                     struct listener *ret_listener, struct kiln_err *err)
{
    struct inherited_fd *given = NULL;
    enum kiln_code rc = find_given(in, &given, err);
    if (rc)
        return rc;
    if (given) {
        rc = listener_adopt(given->fd, ret_listener, err);
        given->fd = rc ? given->fd : -1;
        return rc;
    }
    rc = resume_listener(in, path, group, ret_listener, err);
    return rc == KILN_NOT_FOUND ? listener_open(path, group, ret_listener, err) : rc;
}

static bool is_handed(const char *path)
{
    struct sockaddr_un address = { 0 };
    socklen_t size = sizeof(address);
    return getsockname(HANDED_SOCKET, (struct sockaddr *)&address, &size) == 0 &&
           address.sun_family == AF_UNIX &&
           strncmp(address.sun_path, path, sizeof(address.sun_path)) == 0;
}

enum kiln_code listening_socket_open_private(const char *path, struct listener *ret_listener,
                                             struct kiln_err *err)
{
    if (!is_handed(path))
        return listener_open(path, "", ret_listener, err);
    fcntl(HANDED_LOCK, F_SETFD, FD_CLOEXEC);
    fs_write_pid(HANDED_LOCK);
    return listener_adopt(HANDED_SOCKET, ret_listener, err);
}

void listening_socket_drop_unused(struct inherited *in)
{
    struct inherited_fd *unused = inherited_find(in, OURS_PREFIX, 0);
    for (; unused; unused = inherited_find(in, OURS_PREFIX, (size_t)(unused - in->items) + 1))
        manager_forget(unused->name);
    inherited_done(in);
}
