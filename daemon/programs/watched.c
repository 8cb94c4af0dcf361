/* SPDX-License-Identifier: MIT */
#include "daemon/programs/watched.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 100
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

struct process_state {
    char state;
    long threads;
    unsigned long long born;
};

static bool read_process_state(pid_t pid, struct process_state *ret_state)
{
    char path[32], text[1024] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    const char *name_end = got > 0 ? strrchr(text, ')') : NULL;
    return name_end && sscanf(name_end + 1,
                              " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                              "%*d %ld %*d %llu",
                              &ret_state->state, &ret_state->threads, &ret_state->born) == 3;
}

bool watched_begin(struct watched *ret_watched, pid_t pid)
{
    struct process_state now = { .born = 0 };
    errno = ESRCH;
    if (pid <= 0)
        return false;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 && errno == ESRCH)
        return false;
    if (fd < 0 && !read_process_state(pid, &now))
        now.born = 0;
    *ret_watched = (struct watched){ .pid = pid, .fd = fd, .born = now.born };
    return true;
}

bool watched_begin_peer(struct watched *ret_watched, int socket)
{
    struct ucred peer;
    int fd;
    socklen_t size = sizeof(fd);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) {
        *ret_watched = (struct watched){ .fd = fd };
        return true;
    }
    if (errno == ESRCH || errno == EINVAL) /* both codes mean that the process has ended */
        return false;
    size = sizeof(peer);
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           watched_begin(ret_watched, peer.pid);
}

int watched_pause_ms(const struct watched *w) { return w->fd >= 0 ? -1 : LOOK_MS; }

/* Returns whether the process and all its threads have ended.  A process also looks like a zombie
 * if only its first thread has ended. */
static bool is_gone(const struct watched *w)
{
    siginfo_t child = { .si_pid = 0 };
    struct process_state now;
    if (waitid(P_PID, (id_t)w->pid, &child, WEXITED | WNOHANG | WNOWAIT) == 0)
        return child.si_pid != 0;
    if (!read_process_state(w->pid, &now))
        return kill(w->pid, 0) != 0 && errno == ESRCH;
    bool is_another = w->born && now.born != w->born;
    return is_another || (strchr("ZXx", now.state) && now.threads <= 1);
}

bool watched_has_ended(const struct watched *w, short revents)
{
    return w->fd >= 0 ? revents != 0 : is_gone(w);
}

void watched_end(struct watched *w)
{
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
}
