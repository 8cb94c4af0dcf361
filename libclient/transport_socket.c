/* SPDX-License-Identifier: MIT */
#include "libclient/transport_socket.h"

#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

/* Room for a small object's frame several times over.  Larger frames need more, which is kept up to
 * the second figure: a batch's frames of a quarter megabyte come in a row, and memory given back
 * between them costs a page fault for every page of each. */
#define INPUT_ROOM (64u << 10)
#define INPUT_KEPT (1u << 20)
/* A reader first waits this long inside recvmsg itself, which saves a poll for every answer that
 * comes at once; only then can it be woken by someone whose frame did not go out whole. */
#define READ_SLICE_MS 50
#define MS 1000000ull

struct transport_socket {
    struct transport base;
    int fd;      /* owned */
    int wake_fd; /* owned eventfd: output began to wait while a thread was in poll */

    /* The reader's own. */
    uint8_t *input; /* owned */
    size_t capacity, begin, end;
    size_t consumed;                              /* size of the frame handed out last */
    int descriptors[2 * LIMIT_FRAME_DESCRIPTORS]; /* owned, in the order they came */
    size_t descriptor_count, descriptors_out;     /* _out: handed out with the last frame */

    pthread_mutex_t mutex; /* of what follows */
    struct buffer output;  /* what the socket had no room for */
    size_t output_sent;
    atomic_bool is_sending;
};

static struct transport_socket *socket_of(struct transport *base)
{
    return (struct transport_socket *)base;
}

/* ---- sending ---- */

/* How much went out; 0 when there is no room now. */
static enum kiln_code write_some(int fd, struct bytes data, size_t *ret_sent, struct kiln_err *err)
{
    ssize_t n;
    do
        n = send(fd, data.data, data.size, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS && errno != ENOMEM)
        return kiln_fail(err, KILN_UNAVAILABLE, "kilnd closed the connection: %s", strerror(errno));
    *ret_sent = n < 0 ? 0 : (size_t)n;
    return KILN_OK;
}

static enum kiln_code keep_rest(struct transport_socket *s, struct bytes rest, struct kiln_err *err)
{
    buffer_put(&s->output, rest.data, rest.size);
    if (s->output.failed)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "no memory to keep a request that kilnd is too "
                         "busy to read");
    atomic_store(&s->is_sending, true);
    uint64_t one = 1;
    (void)!write(s->wake_fd, &one, sizeof(one));
    return KILN_OK;
}

static enum kiln_code socket_send(struct transport *base, struct bytes frame, struct kiln_err *err)
{
    struct transport_socket *s = socket_of(base);
    size_t sent = 0;
    pthread_mutex_lock(&s->mutex);
    enum kiln_code rc = KILN_OK;
    if (s->output.size == 0)
        rc = write_some(s->fd, frame, &sent, err);
    if (!rc && sent < frame.size)
        rc = keep_rest(s, bytes_of(frame.data + sent, frame.size - sent), err);
    pthread_mutex_unlock(&s->mutex);
    return rc;
}

/* They go with the first byte. */
static enum kiln_code write_with_files(int fd, struct bytes data, const int *files, size_t count,
                                       size_t *ret_sent, struct kiln_err *err)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(LIMIT_REQUEST_FILES * sizeof(int))];
    } control = { 0 };
    struct iovec part = { (void *)(uintptr_t)data.data, data.size };
    struct msghdr message = { .msg_iov = &part,
                              .msg_iovlen = 1,
                              .msg_control = control.room,
                              .msg_controllen = CMSG_SPACE(count * sizeof(int)) };
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(c), files, count * sizeof(int));
    ssize_t n;
    do
        n = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM))
        return kiln_fail(err, KILN_BUSY, "kilnd is too busy to take files: ask again");
    if (n < 0 && errno == EBADF)
        return kiln_fail(err, KILN_INVALID, "what should go to kilnd is no open file");
    if (n < 0 && errno == ETOOMANYREFS)
        return kiln_fail(err, KILN_BUSY,
                         "too many files of this user are on their way already: ask again");
    if (n < 0)
        return kiln_fail(err, KILN_UNAVAILABLE, "cannot hand files to kilnd: %s", strerror(errno));
    *ret_sent = (size_t)n;
    return KILN_OK;
}

static enum kiln_code socket_send_files(struct transport *base, struct bytes frame,
                                        const int *files, size_t count, struct kiln_err *err)
{
    struct transport_socket *s = socket_of(base);
    size_t sent = 0;
    pthread_mutex_lock(&s->mutex);
    enum kiln_code rc = write_with_files(s->fd, frame, files, count, &sent, err);
    if (!rc && sent < frame.size)
        rc = keep_rest(s, bytes_of(frame.data + sent, frame.size - sent), err);
    pthread_mutex_unlock(&s->mutex);
    return rc;
}

static enum kiln_code send_rest(struct transport_socket *s, struct kiln_err *err)
{
    size_t sent = 0;
    pthread_mutex_lock(&s->mutex);
    struct bytes rest = bytes_of(s->output.data + s->output_sent, s->output.size - s->output_sent);
    enum kiln_code rc = rest.size ? write_some(s->fd, rest, &sent, err) : KILN_OK;
    s->output_sent += sent;
    if (!rc && s->output_sent == s->output.size) {
        buffer_done(&s->output);
        buffer_init(&s->output, SIZE_MAX);
        s->output_sent = 0;
        atomic_store(&s->is_sending, false);
    }
    pthread_mutex_unlock(&s->mutex);
    return rc;
}

static bool socket_is_sending(struct transport *base)
{
    return atomic_load(&socket_of(base)->is_sending);
}

/* ---- receiving ---- */

/* Takes all of them first, so that none leaks whatever is wrong. */
static enum kiln_code take_descriptors(struct transport_socket *s, struct msghdr *message,
                                       struct kiln_err *err)
{
    bool overflow = false;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
            if (s->descriptor_count < sizeof(s->descriptors) / sizeof(s->descriptors[0])) {
                s->descriptors[s->descriptor_count++] = fd;
            } else {
                close(fd);
                overflow = true;
            }
        }
    }
    if (message->msg_flags & MSG_CTRUNC)
        return kiln_fail(err, KILN_FULL,
                         "this process has no room for more open files: raise its "
                         "limit (ulimit -n)");
    if (overflow)
        return kiln_fail(err, KILN_CORRUPT, "kilnd sent more descriptors than a frame may have");
    return KILN_OK;
}

/* KILN_BUSY when there is nothing to read. */
static enum kiln_code read_some(struct transport_socket *s, int flags, struct kiln_err *err)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(LIMIT_FRAME_DESCRIPTORS * sizeof(int))];
    } control;
    struct iovec room = { s->input + s->end, s->capacity - s->end };
    struct msghdr message = {
        .msg_iov = &room,
        .msg_iovlen = 1,
        .msg_control = control.room,
        .msg_controllen = sizeof(control.room),
    };
    ssize_t n = recvmsg(s->fd, &message, flags | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return KILN_BUSY;
    if (n < 0)
        return kiln_fail(err, KILN_UNAVAILABLE, "the connection to kilnd broke: %s",
                         strerror(errno));
    if (n == 0)
        return kiln_fail(err, KILN_UNAVAILABLE, "kilnd closed the connection");
    s->end += (size_t)n;
    bool has_control = message.msg_controllen || (message.msg_flags & MSG_CTRUNC);
    return has_control ? take_descriptors(s, &message, err) : KILN_OK;
}

static int poll_ms(uint64_t deadline_ns)
{
    if (deadline_ns == TRANSPORT_NO_DEADLINE)
        return -1;
    uint64_t now = clock_monotonic_ns();
    if (now >= deadline_ns)
        return 0;
    uint64_t ms = (deadline_ns - now + MS - 1) / MS;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* KILN_OK when there may be something to read. */
static enum kiln_code wait_readable(struct transport_socket *s, uint64_t deadline_ns,
                                    struct kiln_err *err)
{
    for (;;) {
        bool sending = atomic_load(&s->is_sending);
        struct pollfd fds[] = {
            { .fd = s->fd, .events = (short)(sending ? POLLIN | POLLOUT : POLLIN) },
            { .fd = s->wake_fd, .events = POLLIN },
        };
        int n = poll(fds, 2, poll_ms(deadline_ns));
        if (n == 0)
            return KILN_TIMED_OUT;
        if (n < 0 && errno != EINTR)
            return kiln_fail(err, KILN_UNAVAILABLE, "cannot wait for kilnd: %s", strerror(errno));
        if (n < 0)
            continue;
        if (fds[1].revents) {
            uint64_t count;
            (void)!read(s->wake_fd, &count, sizeof(count));
        }
        if (fds[0].revents & POLLOUT) {
            enum kiln_code rc = send_rest(s, err);
            if (rc)
                return rc;
            if (!atomic_load(&s->is_sending) && !(fds[0].revents & ~POLLOUT))
                return KILN_BUSY;
        }
        if (fds[0].revents & ~POLLOUT)
            return KILN_OK;
    }
}

/* Makes room for |size| more bytes behind those that are there. */
static enum kiln_code make_room(struct transport_socket *s, size_t size, struct kiln_err *err)
{
    size_t held = s->end - s->begin;
    if (s->begin && (held == 0 || s->capacity - s->end < size)) {
        memmove(s->input, s->input + s->begin, held);
        s->begin = 0;
        s->end = held;
    }
    bool wasteful = s->capacity > INPUT_KEPT && held == 0 && size <= INPUT_ROOM;
    if (s->capacity - s->end >= size && !wasteful)
        return KILN_OK;
    size_t capacity = held + size > INPUT_ROOM ? held + size : INPUT_ROOM;
    uint8_t *input = realloc(s->input, capacity);
    if (!input)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an answer of %zu bytes", capacity);
    s->input = input;
    s->capacity = capacity;
    return KILN_OK;
}

static enum kiln_code read_more(struct transport_socket *s, size_t missing, uint64_t deadline_ns,
                                struct kiln_err *err)
{
    enum kiln_code rc = make_room(s, missing, err);
    if (rc)
        return rc;
    uint64_t now = clock_monotonic_ns();
    if (!atomic_load(&s->is_sending) && deadline_ns > now + READ_SLICE_MS * MS) {
        rc = read_some(s, 0, err);
        if (rc != KILN_BUSY)
            return rc;
    }
    rc = wait_readable(s, deadline_ns, err);
    if (rc)
        return rc;
    rc = read_some(s, MSG_DONTWAIT, err);
    return rc == KILN_BUSY ? KILN_OK : rc;
}

static enum kiln_code hand_out(struct transport_socket *s, const struct frame_header *header,
                               struct transport_frame *ret_frame, struct kiln_err *err)
{
    size_t size = FRAME_HEADER_SIZE + header->body_size;
    if (header->descriptors > s->descriptor_count)
        return kiln_fail(err, KILN_CORRUPT, "kilnd announced %u descriptors and sent %zu",
                         header->descriptors, s->descriptor_count);
    if (s->end - s->begin == size && s->descriptor_count > header->descriptors)
        return kiln_fail(err, KILN_CORRUPT, "kilnd sent %zu descriptors and announced %u",
                         s->descriptor_count, header->descriptors);
    s->consumed = size;
    s->descriptors_out = header->descriptors;
    *ret_frame = (struct transport_frame){
        .header = *header,
        .body = bytes_of(s->input + s->begin + FRAME_HEADER_SIZE, header->body_size),
        .descriptors = s->descriptors,
        .descriptor_count = header->descriptors,
    };
    return KILN_OK;
}

/* Forgets the frame handed out last. */
static void consume(struct transport_socket *s)
{
    s->begin += s->consumed;
    s->consumed = 0;
    s->descriptor_count -= s->descriptors_out;
    memmove(s->descriptors, s->descriptors + s->descriptors_out,
            s->descriptor_count * sizeof(s->descriptors[0]));
    s->descriptors_out = 0;
}

static enum kiln_code socket_receive(struct transport *base, uint64_t deadline_ns,
                                     struct transport_frame *ret_frame, struct kiln_err *err)
{
    struct transport_socket *s = socket_of(base);
    consume(s);
    for (;;) {
        size_t held = s->end - s->begin;
        size_t wanted = FRAME_HEADER_SIZE;
        if (held >= FRAME_HEADER_SIZE) {
            struct frame_header header;
            if (frame_header_read(s->input + s->begin, &header, err)) {
                err->code = KILN_CORRUPT;
                return kiln_while(err, "what answers is not kilnd, or it is damaged");
            }
            wanted += header.body_size;
            if (held >= wanted)
                return hand_out(s, &header, ret_frame, err);
        }
        enum kiln_code rc = read_more(s, wanted - held, deadline_ns, err);
        if (rc)
            return rc;
    }
}

/* ---- life ---- */

static void socket_stop(struct transport *base) { shutdown(socket_of(base)->fd, SHUT_RDWR); }

static void socket_destroy(struct transport *base)
{
    struct transport_socket *s = socket_of(base);
    /* Those of the last frame belong to whoever has it. */
    for (size_t i = s->descriptors_out; i < s->descriptor_count; i++)
        close(s->descriptors[i]);
    fd_auto(&s->fd);
    fd_auto(&s->wake_fd);
    pthread_mutex_destroy(&s->mutex);
    buffer_done(&s->output);
    free(s->input);
    free(s);
}

static const struct transport_ops socket_ops = {
    .name = "socket",
    .send = socket_send,
    .send_files = socket_send_files,
    .is_sending = socket_is_sending,
    .receive = socket_receive,
    .stop = socket_stop,
    .destroy = socket_destroy,
};

/* Blocking for reads, for at most a slice; sends never wait. */
static enum kiln_code set_up(int fd, struct kiln_err *err)
{
    struct timeval slice = { .tv_usec = READ_SLICE_MS * 1000 };
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof(slice)) < 0)
        return kiln_fail_errno(err, errno, "cannot set up the connection to kilnd");
    return KILN_OK;
}

enum kiln_code transport_socket_adopt(int fd, struct transport **ret_transport,
                                      struct kiln_err *err)
{
    __attribute__((cleanup(fd_auto))) int owned = fd;
    struct transport_socket *s = calloc(1, sizeof(*s));
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a connection to kilnd");
    s->base.ops = &socket_ops;
    s->fd = -1;
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&s->mutex, /* attr= */ NULL);
    buffer_init(&s->output, SIZE_MAX);
    KILN_AUTO(transport) struct transport *base = &s->base;
    if (s->wake_fd < 0)
        return kiln_fail_errno(err, errno, "cannot make an eventfd");
    enum kiln_code rc = set_up(fd, err);
    if (rc)
        return rc;
    s->fd = owned;
    owned = -1;
    *ret_transport = KILN_TAKE(base);
    return KILN_OK;
}

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

static enum kiln_code connect_failed(int errnum, const char *path, struct kiln_err *err)
{
    switch (errnum) {
    case ENOENT:
    case ECONNREFUSED:
    case ENOTDIR:
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "no kilnd at '%s' (%s): start one with 'kilnd --socket %s', or point "
                         "KILN_SOCKET at the one that runs",
                         path, strerror(errnum), path);
    case EAGAIN:
        return kiln_fail(err, KILN_BUSY, "kilnd at '%s' has no room for a new connection yet",
                         path);
    case EACCES:
    case EPERM: return refused(path, err);
    default: return kiln_fail_errno(err, errnum, "cannot connect to kilnd at '%s'", path);
    }
}

enum kiln_code transport_socket_connect(const char *path, struct transport **ret_transport,
                                        struct kiln_err *err)
{
    enum kiln_code rc = transport_socket_check(path, err);
    if (rc)
        return rc;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy(address.sun_path, path, strlen(path));
    __attribute__((cleanup(fd_auto))) int fd =
        socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot make a socket");
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return connect_failed(errno, path, err);
    int taken = fd;
    fd = -1;
    return transport_socket_adopt(taken, ret_transport, err);
}
