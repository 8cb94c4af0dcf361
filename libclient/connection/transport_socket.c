/* SPDX-License-Identifier: MIT */
#include "libclient/connection/transport_socket_parts.h"

#include "common/base/clock.h"
#include "common/base/fd_message.h"
#include "libclient/connection/transport_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

/* Sizes of the input buffer.  At first, the buffer can hold several frames with small objects;
 * larger frames enlarge the buffer.  Between frames, the buffer keeps up to INPUT_KEPT bytes.  If
 * it were freed after each large frame of a batch, the next frame would cost a page fault for every
 * page. */
#define INPUT_MIN (64u << 10)
#define INPUT_KEPT (1u << 20)
/* How long a reader waits inside recvmsg before it calls poll.  An answer that comes in this time
 * needs no call of poll.  Later, poll is necessary: if another thread could send only a part of its
 * frame, this thread can wake a reader in poll, but not a reader in recvmsg. */
#define READ_SLICE_MS 50
#define MS 1000000ull

/* Takes all descriptors before checking anything, so that no descriptor leaks. */
static enum kiln_code take_descriptors(struct transport_socket *s, const struct msghdr *message,
                                       struct kiln_err *err)
{
    size_t space = sizeof(s->descriptors) / sizeof(s->descriptors[0]) - s->descriptor_count;
    size_t count = fd_message_take(message, s->descriptors + s->descriptor_count, space);
    s->descriptor_count += count < space ? count : space;
    if (message->msg_flags & MSG_CTRUNC)
        return kiln_fail(err, KILN_FULL,
                         "this process has too many open files: raise its limit (ulimit -n)");
    if (count > space)
        return kiln_fail(err, KILN_CORRUPT, "kilnd sent more descriptors than a frame may have");
    return KILN_OK;
}

static enum kiln_code read_some(struct transport_socket *s, int flags, struct kiln_err *err)
{
    FD_MESSAGE_SPACE(control, LIMIT_FRAME_DESCRIPTORS);
    struct iovec free_space = { s->input + s->end, s->capacity - s->end };
    struct msghdr message = {
        .msg_iov = &free_space,
        .msg_iovlen = 1,
        .msg_control = control,
        .msg_controllen = sizeof(control),
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
            enum kiln_code rc = socket_send_rest(s, err);
            if (rc)
                return rc;
            if (!atomic_load(&s->is_sending) && !(fds[0].revents & ~POLLOUT))
                return KILN_BUSY;
        }
        if (fds[0].revents & ~POLLOUT)
            return KILN_OK;
    }
}

static enum kiln_code make_space(struct transport_socket *s, size_t size, struct kiln_err *err)
{
    size_t held = s->end - s->begin;
    if (s->begin && (held == 0 || s->capacity - s->end < size)) {
        memmove(s->input, s->input + s->begin, held);
        s->begin = 0;
        s->end = held;
    }
    bool wasteful = s->capacity > INPUT_KEPT && held == 0 && size <= INPUT_MIN;
    if (s->capacity - s->end >= size && !wasteful)
        return KILN_OK;
    size_t capacity = held + size > INPUT_MIN ? held + size : INPUT_MIN;
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
    enum kiln_code rc = make_space(s, missing, err);
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

static enum kiln_code return_frame(struct transport_socket *s, const struct frame_header *header,
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

static void consume_frame(struct transport_socket *s)
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
    consume_frame(s);
    for (;;) {
        size_t held = s->end - s->begin;
        size_t needed = FRAME_HEADER_SIZE;
        if (held >= FRAME_HEADER_SIZE) {
            struct frame_header header;
            if (frame_header_read(s->input + s->begin, &header, err)) {
                err->code = KILN_CORRUPT;
                return kiln_while(err, "the peer is not kilnd, or it is damaged");
            }
            needed += header.body_size;
            if (held >= needed)
                return return_frame(s, &header, ret_frame, err);
        }
        enum kiln_code rc = read_more(s, needed - held, deadline_ns, err);
        if (rc)
            return rc;
    }
}

static ino_t inode_of(int fd)
{
    struct stat seen;
    return fstat(fd, &seen) == 0 ? seen.st_ino : 0;
}

/* Closes |fd| unless its inode has changed.  The job may have closed libkiln's descriptor and then
 * opened a file that got the same number. */
static void close_unless_replaced(int fd, ino_t inode)
{
    if (fd >= 0 && inode_of(fd) == inode)
        close(fd);
}

static void socket_stop(struct transport *base) { shutdown(socket_of(base)->fd, SHUT_RDWR); }

static void socket_destroy(struct transport *base)
{
    struct transport_socket *s = socket_of(base);
    /* Closes the descriptors that no frame has passed on yet.  Those of the last frame belong to
     * its receiver. */
    for (size_t i = s->descriptors_out; i < s->descriptor_count; i++)
        close(s->descriptors[i]);
    close_unless_replaced(s->fd, s->inode);
    close_unless_replaced(s->wake_fd, s->wake_inode);
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

/* A read blocks for at most READ_SLICE_MS.  Sends never block. */
static enum kiln_code set_socket_options(int fd, struct kiln_err *err)
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
    s->wake_inode = inode_of(s->wake_fd);
    pthread_mutex_init(&s->mutex, NULL);
    buffer_init(&s->output, SIZE_MAX);
    KILN_AUTO(transport) struct transport *base = &s->base;
    if (s->wake_fd < 0)
        return kiln_fail_errno(err, errno, "cannot create an eventfd");
    enum kiln_code rc = set_socket_options(fd, err);
    if (rc)
        return rc;
    s->fd = owned;
    s->inode = inode_of(owned);
    owned = -1;
    *ret_transport = KILN_TAKE(base);
    return KILN_OK;
}
