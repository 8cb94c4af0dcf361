/* SPDX-License-Identifier: MIT */
#include "tests/support/service_manager.h"

#include "common/base/clock.h"
#include "tests/support/unix_socket.h"
#include "tests/support/wait.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FILES_A_MESSAGE 253
#define FIRST 3
#define ASIDE 512
#define BACKLOG 4096

static void drop(struct service_manager *m, const char *name)
{
    size_t left = 0;
    for (size_t i = 0; i < m->kept_count; i++) {
        if (strcmp(m->kept[i].name, name) == 0)
            close(m->kept[i].fd);
        else
            m->kept[left++] = m->kept[i];
    }
    m->kept_count = left;
}

static void keep(struct service_manager *m, const int *fds, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (m->kept_count == KEPT_MAX) {
            close(fds[i]);
            continue;
        }
        m->kept[m->kept_count].fd = fds[i];
        snprintf(m->kept[m->kept_count].name, sizeof(m->kept[0].name), "%s", name);
        m->kept_count++;
    }
}

struct reported {
    bool stores, removes;
    char name[256];
};

static void take_line(struct service_manager *m, const char *line, struct reported *reported)
{
    struct service_manager_counts *c = &m->counts;
    if (strcmp(line, "READY=1") == 0) {
        c->ready++;
        c->ready_ns = clock_monotonic_ns();
    }
    c->reloading += strcmp(line, "RELOADING=1") == 0;
    c->stopping += strcmp(line, "STOPPING=1") == 0;
    c->watchdog += strcmp(line, "WATCHDOG=1") == 0;
    m->settled += strcmp(line, "X_SETTLE=1") == 0;
    if (strncmp(line, "EXTEND_TIMEOUT_USEC=", 20) == 0)
        c->extended_us = strtoull(line + 20, NULL, 10);
    reported->stores |= strcmp(line, "FDSTORE=1") == 0;
    reported->removes |= strcmp(line, "FDSTOREREMOVE=1") == 0;
    if (strncmp(line, "FDNAME=", 7) == 0)
        snprintf(reported->name, sizeof(reported->name), "%s", line + 7);
    if (strncmp(line, "STATUS=", 7) == 0) {
        snprintf(m->status, sizeof(m->status), "%s", line + 7);
        c->status++;
    }
}

static void take_message(struct service_manager *m, char *text, const int *fds, size_t count)
{
    struct reported reported = { .name = "stored" };
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        take_line(m, line, &reported);
    if (reported.removes) {
        drop(m, reported.name);
        m->counts.removed++;
    }
    if (reported.stores) {
        keep(m, fds, count, reported.name);
        m->counts.stored++;
        return;
    }
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
}

static void receive(struct service_manager *m)
{
    char text[4096];
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(FILES_A_MESSAGE * sizeof(int))];
    } control;
    int fds[FILES_A_MESSAGE];
    struct iovec iov = { .iov_base = text, .iov_len = sizeof(text) - 1 };
    struct msghdr h = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
    };
    ssize_t got = recvmsg(m->notify, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    size_t count = 0;
    if (got <= 0)
        return;
    text[got] = '\0';
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(c), count * sizeof(int));
    }
    pthread_mutex_lock(&m->mutex);
    take_message(m, text, fds, count);
    pthread_mutex_unlock(&m->mutex);
}

static void *listen_to_it(void *context)
{
    struct service_manager *m = context;
    struct pollfd p[2] = { { .fd = m->wake[0], .events = POLLIN },
                           { .fd = m->notify, .events = POLLIN } };
    while (await_work(p, 2))
        receive(m);
    return NULL;
}

/* Called in the child. Moves the listening socket and the stored descriptors to the numbers 3,
 * 4, ..., as sd_listen_fds(3) expects. */
static void give_descriptors(const struct service_manager *m)
{
    int fds[KEPT_MAX + 1];
    char names[KEPT_MAX * 64] = "", number[32];
    size_t count = 0, used = 0;
    if (m->listener >= 0) {
        fds[count++] = fcntl(m->listener, F_DUPFD, ASIDE);
        used += (size_t)snprintf(names, sizeof(names), "kilnd.socket");
    }
    for (size_t i = 0; i < m->kept_count; i++) {
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", count ? ":" : "",
                                 m->kept[i].name);
        fds[count++] = fcntl(m->kept[i].fd, F_DUPFD, ASIDE);
    }
    for (size_t i = 0; i < count; i++) {
        dup2(fds[i], FIRST + (int)i);
        close(fds[i]);
    }
    if (count == 0)
        return;
    snprintf(number, sizeof(number), "%d", (int)getpid());
    setenv("LISTEN_PID", number, 1);
    snprintf(number, sizeof(number), "%zu", count);
    setenv("LISTEN_FDS", number, 1);
    setenv("LISTEN_FDNAMES", names, 1);
}

static void prepare(void *context)
{
    const struct service_manager *m = context;
    char pid[32];
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    setenv("NOTIFY_SOCKET", m->path, 1);
    if (m->store_size)
        setenv("FDSTORE", m->store_size, 1);
    if (m->watchdog_us) {
        setenv("WATCHDOG_USEC", m->watchdog_us, 1);
        setenv("WATCHDOG_PID", m->watchdog_pid ? m->watchdog_pid : pid, 1);
    }
    give_descriptors(m);
}

void service_manager_open(struct service_manager *m, struct daemon_process *daemon,
                          bool with_socket)
{
    memset(m, 0, sizeof(*m));
    m->daemon = daemon;
    snprintf(m->path, sizeof(m->path), "%s/notify", daemon->directory);
    m->notify = unix_bind(SOCK_DGRAM, m->path);
    m->listener = with_socket ? unix_listen(SOCK_STREAM, daemon->socket, BACKLOG) : -1;
    pthread_mutex_init(&m->mutex, NULL);
    assert_int_equal(pipe2(m->wake, O_CLOEXEC), 0);
    assert_int_equal(pthread_create(&m->thread, NULL, listen_to_it, m), 0);
    daemon->prepare = prepare;
    daemon->context = m;
}

struct ready {
    struct service_manager *m;
    unsigned before;
};

static bool is_ready(void *context)
{
    struct ready *r = context;
    return service_manager_counts(r->m).ready > r->before;
}

void service_manager_start(struct service_manager *m)
{
    struct ready ready = { .m = m, .before = service_manager_counts(m).ready };
    daemon_process_start(m->daemon);
    wait_until("READY=1", is_ready, &ready);
}

static bool is_settled(void *context)
{
    struct service_manager *m = context;
    pthread_mutex_lock(&m->mutex);
    bool done = m->settled == m->settling;
    pthread_mutex_unlock(&m->mutex);
    return done;
}

void service_manager_settle(struct service_manager *m)
{
    struct sockaddr_un address = unix_address(m->path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    pthread_mutex_lock(&m->mutex);
    m->settling++;
    pthread_mutex_unlock(&m->mutex);
    assert_int_equal(sendto(fd, "X_SETTLE=1", 10, 0, (struct sockaddr *)&address, sizeof(address)),
                     10);
    close(fd);
    wait_until("the messages to the service manager", is_settled, m);
}

void service_manager_restart(struct service_manager *m, int signal)
{
    assert_int_equal(kill(m->daemon->pid, signal), 0);
    int status = daemon_process_wait(m->daemon);
    assert_int_equal(status, signal == SIGKILL ? 128 + SIGKILL : 0);
    service_manager_settle(m);
    service_manager_start(m);
}

struct service_manager_counts service_manager_counts(struct service_manager *m)
{
    pthread_mutex_lock(&m->mutex);
    struct service_manager_counts counts = m->counts;
    pthread_mutex_unlock(&m->mutex);
    return counts;
}

void service_manager_status(struct service_manager *m, char text[256])
{
    pthread_mutex_lock(&m->mutex);
    memcpy(text, m->status, sizeof(m->status));
    pthread_mutex_unlock(&m->mutex);
}

size_t service_manager_kept(struct service_manager *m, const char *prefix)
{
    size_t count = 0;
    pthread_mutex_lock(&m->mutex);
    for (size_t i = 0; i < m->kept_count; i++)
        count += strncmp(m->kept[i].name, prefix, strlen(prefix)) == 0;
    pthread_mutex_unlock(&m->mutex);
    return count;
}

void service_manager_put(struct service_manager *m, int fd, const char *name)
{
    pthread_mutex_lock(&m->mutex);
    keep(m, &fd, 1, name);
    pthread_mutex_unlock(&m->mutex);
}

void service_manager_forget(struct service_manager *m)
{
    pthread_mutex_lock(&m->mutex);
    while (m->kept_count > 0)
        close(m->kept[--m->kept_count].fd);
    pthread_mutex_unlock(&m->mutex);
}

void service_manager_close(struct service_manager *m)
{
    assert_int_equal(write(m->wake[1], "", 1), 1);
    await_thread(m->thread, NULL);
    service_manager_forget(m);
    close(m->wake[0]);
    close(m->wake[1]);
    close(m->notify);
    if (m->listener >= 0)
        close(m->listener);
    m->daemon->prepare = NULL;
    pthread_mutex_destroy(&m->mutex);
}
