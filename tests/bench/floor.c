/* SPDX-License-Identifier: MIT */
#include "tests/bench/floor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/un.h>

struct floor_object {
    int fd;
    const uint8_t *data; /* the mapped object; NULL unless the mode is FLOOR_INLINE */
};

struct floor {
    struct floor_object *objects;
    size_t count, size;
    int listener, epoll_listener;
};

struct floor_client {
    const struct floor *floor;
    int fd;
};

static bool read_whole(int fd, void *to, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = recv(fd, (uint8_t *)to + done, size - done, 0);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool send_whole(int fd, struct msghdr *m, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = sendmsg(fd, m, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        done += (size_t)n;
        /* the descriptors have been sent with the first byte */
        m->msg_controllen = 0;
        for (; n > 0; m->msg_iov++, m->msg_iovlen--) {
            size_t part = m->msg_iov->iov_len < (size_t)n ? m->msg_iov->iov_len : (size_t)n;
            m->msg_iov->iov_base = (uint8_t *)m->msg_iov->iov_base + part;
            m->msg_iov->iov_len -= part;
            n -= (ssize_t)part;
            if (m->msg_iov->iov_len)
                break;
        }
    }
    return true;
}

static void attach_descriptors(struct msghdr *m, void *control, const struct floor *f, size_t first,
                               size_t n)
{
    m->msg_control = control;
    m->msg_controllen = CMSG_SPACE(n * sizeof(int));
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n * sizeof(int));
    for (size_t i = 0; i < n; i++)
        memcpy(CMSG_DATA(c) + i * sizeof(int), &f->objects[(first + i) % f->count].fd, sizeof(int));
}

static bool answer_descriptors(const struct floor *f, int fd, const struct floor_request *q)
{
    static const uint8_t head[FLOOR_REPLY_SIZE];
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(FLOOR_DESCRIPTORS_MAX * sizeof(int))];
    for (uint32_t done = 0; done < q->count;) {
        uint32_t n = q->count - done;
        n = n < FLOOR_DESCRIPTORS_MAX ? n : FLOOR_DESCRIPTORS_MAX;
        struct iovec part = { .iov_base = (void *)head, .iov_len = sizeof(head) };
        struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };
        attach_descriptors(&m, control, f, q->first + done, n);
        if (!send_whole(fd, &m, sizeof(head)))
            return false;
        done += n;
    }
    return true;
}

static bool answer_request(const struct floor *f, int fd)
{
    static const uint8_t head[FLOOR_REPLY_SIZE];
    uint8_t raw[FLOOR_REQUEST_SIZE];
    if (!read_whole(fd, raw, sizeof(raw)))
        return false;
    struct floor_request q;
    memcpy(&q, raw, sizeof(q));
    if (q.mode == FLOOR_DESCRIPTOR)
        return answer_descriptors(f, fd, &q);
    bool whole = q.mode == FLOOR_INLINE;
    struct iovec parts[] = {
        { .iov_base = (void *)head, .iov_len = sizeof(head) },
        { .iov_base = (void *)f->objects[q.first % f->count].data, .iov_len = whole ? f->size : 0 },
    };
    struct msghdr m = { .msg_iov = parts, .msg_iovlen = 2 };
    return send_whole(fd, &m, sizeof(head) + parts[1].iov_len);
}

static void *serve_guest(void *argument)
{
    KILN_AUTO(mem) struct floor_client *floor_client = argument;
    KILN_AUTO(fd) int fd = floor_client->fd;
    while (answer_request(floor_client->floor, fd))
        ;
    return NULL;
}

static void *serve_threads(void *argument)
{
    const struct floor *f = argument;
    for (;;) {
        KILN_AUTO(mem) struct floor_client *floor_client = malloc(sizeof(*floor_client));
        int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 || !floor_client)
            _exit(1);
        *floor_client = (struct floor_client){ .floor = f, .fd = fd };
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve_guest, floor_client))
            _exit(1);
        pthread_detach(thread);
        (void)KILN_TAKE(floor_client);
    }
}

static void watch_socket(int epoll, int fd)
{
    struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e))
        _exit(1);
}

_Noreturn static void serve_epoll(const struct floor *f)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    watch_socket(epoll, f->epoll_listener);
    for (;;) {
        struct epoll_event events[64];
        int n = epoll_wait(epoll, events, 64, -1);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == f->epoll_listener)
                watch_socket(epoll, accept4(fd, NULL, NULL, SOCK_CLOEXEC));
            else if (!answer_request(f, fd))
                close(fd);
        }
    }
}

_Noreturn static void serve_client(const struct floor *f, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_t thread;
    if (getppid() != parent || pthread_create(&thread, NULL, serve_threads, (void *)f))
        _exit(1);
    serve_epoll(f);
}

/* ---- start ---- */

static enum kiln_code address_of(const char *path, struct sockaddr_un *ret_address,
                                 struct kiln_err *err)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof(address.sun_path))
        return kiln_fail(err, KILN_INVALID, "'%s' is too long for a socket", path);
    strcpy(address.sun_path, path);
    *ret_address = address;
    return KILN_OK;
}

static enum kiln_code listen_on(const char *path, int *ret_fd, struct kiln_err *err)
{
    struct sockaddr_un address;
    enum kiln_code rc = address_of(path, &address, err);
    if (rc)
        return rc;
    unlink(path);
    KILN_AUTO(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 128))
        return kiln_fail_errno(err, errno, "cannot listen on '%s'", path);
    *ret_fd = fd;
    fd = -1;
    return KILN_OK;
}

static void floor_done(struct floor *f)
{
    for (size_t i = 0; f->objects && i < f->count; i++) {
        if (f->objects[i].data)
            munmap((void *)f->objects[i].data, f->size);
        fd_auto(&f->objects[i].fd);
    }
    free(f->objects);
    fd_auto(&f->listener);
    fd_auto(&f->epoll_listener);
}

static enum kiln_code make_object(const struct content *content, size_t index,
                                  struct floor_object *object, struct kiln_err *err)
{
    enum kiln_code rc = content_memfd(content, index, &object->fd, err);
    if (rc)
        return rc;
    void *data = mmap(NULL, content->size, PROT_READ, MAP_SHARED, object->fd, 0);
    if (data == MAP_FAILED)
        return kiln_fail_errno(err, errno, "cannot map an object");
    object->data = data;
    return KILN_OK;
}

static enum kiln_code make_objects(struct floor *f, const struct content *content,
                                   struct kiln_err *err)
{
    f->objects = calloc(content->count, sizeof(*f->objects));
    if (!f->objects)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot hold %zu objects", content->count);
    f->count = content->count;
    f->size = content->size;
    for (size_t i = 0; i < f->count; i++)
        f->objects[i].fd = -1;
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < f->count && !rc; i++)
        rc = make_object(content, i, &f->objects[i], err);
    return rc;
}

enum kiln_code floor_start(const struct content *content, const char *path, const char *epoll_path,
                           struct server *ret_server, struct kiln_err *err)
{
    __attribute__((cleanup(floor_done))) struct floor f = { .listener = -1, .epoll_listener = -1 };
    enum kiln_code rc = make_objects(&f, content, err);
    if (!rc)
        rc = listen_on(path, &f.listener, err);
    if (!rc)
        rc = listen_on(epoll_path, &f.epoll_listener, err);
    if (rc)
        return kiln_while(err, "starting the bare server");
    pid_t self = getpid();
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        serve_client(&f, self);
    if (pid < 0)
        return kiln_fail_errno(err, errno, "cannot start the bare server");
    *ret_server = (struct server){ .pid = pid };
    return KILN_OK;
}

/* ---- client side ---- */

enum kiln_code floor_connect(const char *path, int *ret_fd, struct kiln_err *err)
{
    struct sockaddr_un address;
    enum kiln_code rc = address_of(path, &address, err);
    if (rc)
        return rc;
    KILN_AUTO(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
        return kiln_fail_errno(err, errno, "cannot connect to '%s'", path);
    *ret_fd = fd;
    fd = -1;
    return KILN_OK;
}

enum kiln_code floor_ask(int fd, const struct floor_request *request, struct kiln_err *err)
{
    uint8_t raw[FLOOR_REQUEST_SIZE] = { 0 };
    memcpy(raw, request, sizeof(*request));
    if (send(fd, raw, sizeof(raw), MSG_NOSIGNAL) != (ssize_t)sizeof(raw))
        return kiln_fail_errno(err, errno, "cannot ask the bare server");
    return KILN_OK;
}

static void take_descriptors(struct msghdr *m, struct floor_reply *reply)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        reply->fd_count = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(reply->fds, CMSG_DATA(c), reply->fd_count * sizeof(int));
    }
}

enum kiln_code floor_hear(int fd, struct floor_reply *reply, struct kiln_err *err)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(FLOOR_DESCRIPTORS_MAX * sizeof(int))];
    reply->fd_count = 0;
    for (size_t done = 0; done < reply->size;) {
        struct iovec part = { .iov_base = reply->body + done, .iov_len = reply->size - done };
        struct msghdr m = { .msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof(control) };
        ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
        if (n == 0 || (n < 0 && errno != EINTR))
            return kiln_fail(err, KILN_IO, "the bare server went away");
        if (n > 0 && m.msg_controllen)
            take_descriptors(&m, reply);
        done += n > 0 ? (size_t)n : 0;
    }
    return KILN_OK;
}
