/* SPDX-License-Identifier: MIT */
#include "daemon/manager/notify.h"

#include "common/base/cleanup.h"
#include "common/base/fd_message.h"
#include "common/base/units.h"
#include "common/log/log.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#define SEND_MAX_S 5

static struct {
    struct sockaddr_un address; /* sun_path is empty if there is no manager */
    socklen_t address_size;
    uint64_t watchdog_ms;
    int store_size;
} manager = { .store_size = -1 };

/* |path| is absolute, or '@' and a name in the abstract namespace. */
static void adopt_socket(const char *path)
{
    struct sockaddr_un *a = &manager.address;
    *a = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (!path || !*path)
        return;
    size_t size = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || size >= sizeof(a->sun_path)) {
        log_event(LOG_EVENT_manager_invalid, NULL,
                  "NOTIFY_SOCKET '%.200s' is not a valid path of a socket: kilnd cannot notify the "
                  "service manager",
                  path);
        return;
    }
    memcpy(a->sun_path, path, size);
    if (path[0] == '@')
        a->sun_path[0] = '\0';
    manager.address_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
}

static void adopt_watchdog(const char *interval, const char *pid)
{
    uint64_t us = 0, for_pid = (uint64_t)getpid();
    if (!interval)
        return;
    if (!units_parse_number(interval, UINT64_MAX, &us) ||
        (pid && !units_parse_number(pid, UINT64_MAX, &for_pid))) {
        log_event(LOG_EVENT_manager_invalid, NULL,
                  "WATCHDOG_USEC '%.40s' (WATCHDOG_PID '%.40s') is not a number: kilnd sends no "
                  "watchdog messages",
                  interval, pid ? pid : "");
        return;
    }
    if (us == 0 || for_pid != (uint64_t)getpid())
        return;
    manager.watchdog_ms = us / 2 / 1000 > 0 ? us / 2 / 1000 : 1;
}

void notify_adopt(void)
{
    uint64_t kept;
    manager.address_size = 0;
    manager.watchdog_ms = 0;
    adopt_socket(getenv("NOTIFY_SOCKET"));
    if (notify_is_on())
        adopt_watchdog(getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID"));
    manager.store_size =
        units_parse_number(getenv("FDSTORE"), (1u << 30) - 1, &kept) ? (int)kept : -1;
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    unsetenv("FDSTORE");
}

bool notify_is_on(void) { return manager.address_size > 0; }
uint64_t notify_watchdog_ms(void) { return manager.watchdog_ms; }
int notify_store_size(void) { return manager.store_size; }

static int open_socket(enum notify_urgency urgency)
{
    int flags = urgency == NOTIFY_MUST_ARRIVE ? 0 : SOCK_NONBLOCK;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | flags, 0);
    const struct timeval most = { .tv_sec = SEND_MAX_S };
    if (fd >= 0 && urgency == NOTIFY_MUST_ARRIVE)
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
    return fd;
}

bool notify_manager(const char *state, const struct notify_files *files,
                    enum notify_urgency urgency)
{
    if (!notify_is_on())
        return true;
    FD_MESSAGE_SPACE(space, NOTIFY_FILES_MAX);
    struct iovec text = { .iov_base = (void *)(uintptr_t)state, .iov_len = strlen(state) };
    struct msghdr m = { .msg_name = &manager.address,
                        .msg_namelen = manager.address_size,
                        .msg_iov = &text,
                        .msg_iovlen = 1 };
    if (files && files->count > 0)
        fd_message_put(&m, space, files->fds, files->count);
    KILN_AUTO(fd) int fd = open_socket(urgency);
    if (fd >= 0 && sendmsg(fd, &m, MSG_NOSIGNAL) >= 0)
        return true;
    log_event(LOG_EVENT_manager_unreachable, NULL, "cannot send '%.*s' to the service manager: %s",
              (int)strcspn(state, "\n"), state, strerror(errno));
    return false;
}
