/* SPDX-License-Identifier: MIT */
#include "daemon/notify.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_un manager; /* sun_path is empty when there is none */

void notify_adopt(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    manager = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (path && strlen(path) < sizeof(manager.sun_path))
        strcpy(manager.sun_path, path);
    unsetenv("NOTIFY_SOCKET");
}

void notify_manager(const char *state)
{
    size_t length = strlen(manager.sun_path);
    if (length == 0)
        return;
    struct sockaddr_un to = manager;
    if (to.sun_path[0] == '@') /* the abstract namespace, as systemd writes it */
        to.sun_path[0] = '\0';
    KILN_AUTO(fd) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    if (fd < 0 || sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to, size) < 0)
        log_warning("cannot tell the service manager '%s': %s", state, strerror(errno));
}
