/* SPDX-License-Identifier: MIT */
#include "daemon/manager/parcel.h"

#include "common/fs.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* As many as the kernel takes at once (SCM_MAX_FD). */
#define FILES_A_MESSAGE 253u
/* Each message is one byte that says what it brings. */
#define SORT_INDEX 'i'
#define SORT_FILES 'f'
/* An index of all that fits: more than any kilnd writes. */
#define INDEX_MOST (64u << 20)

union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(FILES_A_MESSAGE * sizeof(int))];
};

/* ---- packing ---- */

static enum kiln_code send_files(int end, char sort, const int *fds, size_t count,
                                 struct kiln_err *err)
{
    union control control;
    size_t size = count * sizeof(int);
    struct iovec byte = { .iov_base = &sort, .iov_len = 1 };
    struct msghdr m = { .msg_iov = &byte,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = CMSG_SPACE(size) };
    memset(&control, 0, sizeof(control));
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(c), fds, size);
    if (sendmsg(end, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == 1)
        return KILN_OK;
    return kiln_fail_errno(err, errno, "cannot put %zu descriptors aside", count);
}

static enum kiln_code send_all(int end, struct bytes index, const int *fds, size_t count,
                               struct kiln_err *err)
{
    KILN_AUTO(fd) int file = -1;
    enum kiln_code rc = fs_memfd("kiln-hot-index", &file, err);
    if (!rc)
        rc = fs_write_all(file, index, err);
    if (!rc)
        rc = fs_seal(file, err);
    if (!rc)
        rc = send_files(end, SORT_INDEX, &file, 1, err);
    for (size_t at = 0; !rc && at < count;) {
        size_t some = count - at < FILES_A_MESSAGE ? count - at : FILES_A_MESSAGE;
        rc = send_files(end, SORT_FILES, fds + at, some, err);
        at += some;
    }
    return rc;
}

enum kiln_code parcel_pack(struct bytes index, const int *fds, size_t count, int ret_ends[2],
                           struct kiln_err *err)
{
    int ends[2];
    if (count > PARCEL_FILES_MOST)
        return kiln_fail(err, KILN_FULL, "%zu descriptors, at most %u fit", count,
                         PARCEL_FILES_MOST);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        return kiln_fail_errno(err, errno, "cannot make a pair of sockets");
    enum kiln_code rc = send_all(ends[1], index, fds, count, err);
    if (rc) {
        close(ends[0]);
        close(ends[1]);
        return rc;
    }
    memcpy(ret_ends, ends, sizeof(ends));
    return KILN_OK;
}

/* ---- unpacking ---- */

static enum kiln_code check_end(int end, struct kiln_err *err)
{
    int domain = 0, type = 0;
    struct ucred maker = { 0 };
    socklen_t size = sizeof(int), maker_size = sizeof(maker);
    if (getsockopt(end, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0 ||
        getsockopt(end, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || domain != AF_UNIX ||
        type != SOCK_SEQPACKET)
        return kiln_fail(err, KILN_INVALID, "it is no socket that kilnd packs");
    if (getsockopt(end, SOL_SOCKET, SO_PEERCRED, &maker, &maker_size) < 0 || maker.uid != geteuid())
        return kiln_fail(err, KILN_DENIED, "user %u made it", (unsigned)maker.uid);
    return KILN_OK;
}

/* All descriptors of |m| go to |p|, or are closed where there is no room: none may leak. */
static bool keep_files(struct msghdr *m, struct parcel *p, size_t room)
{
    bool all = true;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            all = all && p->count < room;
            if (p->count < room)
                p->fds[p->count++] = fd;
            else
                close(fd);
        }
    }
    return all && !(m->msg_flags & (MSG_CTRUNC | MSG_TRUNC));
}

/* One message.  KILN_NOT_FOUND: there are no more. */
static enum kiln_code receive(int end, struct parcel *p, size_t room, char *ret_sort,
                              struct kiln_err *err)
{
    union control control;
    struct iovec byte = { .iov_base = ret_sort, .iov_len = 1 };
    struct msghdr m = { .msg_iov = &byte,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof(control) };
    ssize_t got;
    *ret_sort = 0;
    do
        got = recvmsg(end, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    /* An empty message may have descriptors all the same. */
    bool at_end = got == 0 && m.msg_controllen == 0;
    if (at_end || (got < 0 && (errno == EAGAIN || errno == ECONNRESET)))
        return KILN_NOT_FOUND;
    if (got < 0)
        return kiln_fail_errno(err, errno, "cannot take descriptors out");
    if (!keep_files(&m, p, room))
        return kiln_fail(err, KILN_FULL,
                         "not all descriptors could be taken out: raise LimitNOFILE");
    return KILN_OK;
}

static enum kiln_code read_index(struct parcel *p, struct kiln_err *err)
{
    KILN_AUTO(fd) int file = p->fds[0];
    p->count = 0;
    if (!fs_is_sealed(file))
        return kiln_fail(err, KILN_CORRUPT, "its index is no sealed memory file");
    return fs_read_fd(file, INDEX_MOST, &p->index, err);
}

static enum kiln_code receive_all(int end, struct parcel *p, struct kiln_err *err)
{
    char sort = 0;
    enum kiln_code rc = receive(end, p, 1, &sort, err);
    if (rc)
        return rc;
    if (sort != SORT_INDEX || p->count != 1)
        return kiln_fail(err, KILN_CORRUPT, "it does not begin with an index");
    rc = read_index(p, err);
    while (!rc) {
        rc = receive(end, p, PARCEL_FILES_MOST, &sort, err);
        if (!rc && sort != SORT_FILES)
            rc = kiln_fail(err, KILN_CORRUPT, "it has more than one index");
    }
    return rc == KILN_NOT_FOUND ? KILN_OK : rc;
}

enum kiln_code parcel_unpack(int end, struct parcel *ret_parcel, struct kiln_err *err)
{
    PARCEL_AUTO struct parcel p = { 0 };
    buffer_init(&p.index, INDEX_MOST);
    p.fds = calloc(PARCEL_FILES_MOST, sizeof(*p.fds));
    if (!p.fds)
        return kiln_fail(err, KILN_NO_MEMORY, "out of memory");
    enum kiln_code rc = check_end(end, err);
    if (!rc)
        rc = receive_all(end, &p, err);
    if (rc)
        return rc;
    *ret_parcel = p;
    p = (struct parcel){ 0 };
    return KILN_OK;
}

void parcel_done(struct parcel *p)
{
    for (size_t i = 0; i < p->count; i++) {
        if (p->fds[i] >= 0)
            close(p->fds[i]);
    }
    free(p->fds);
    buffer_done(&p->index);
    *p = (struct parcel){ 0 };
}
