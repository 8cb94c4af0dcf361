/* SPDX-License-Identifier: MIT */
#include "engine/transfer/fleet_serve.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "engine/fleet/fleet_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUSY_US 1000
#define BUSY_TRIES 5000u

static enum kiln_code find_credentials(struct fleet_source *source, struct kiln_err *err)
{
    enum kiln_code rc = store_credentials_read(&source->credentials, err);
    return rc || source->credentials.id[0]
               ? rc
               : store_provider_find(source->url, &source->provider, err);
}

enum kiln_code fleet_source_open(const struct url *url, struct fleet_source *ret_source,
                                 struct kiln_err *err)
{
    *ret_source = (struct fleet_source){ .url = url, .directory = -1 };
    if (url->scheme != URL_FILE)
        return find_credentials(ret_source, err);
    ret_source->directory = open(url->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return ret_source->directory < 0
               ? kiln_fail_errno(err, errno, "cannot open the directory '%s'", url->shown)
               : KILN_OK;
}

/* Sends |answer|. Tries again for a while if too many descriptors were sent but not received yet:
 * Linux limits their number for each user (RLIMIT_NOFILE), and kilnd will soon receive some. */
static void send_answer(int socket, const struct fleet_answer *answer)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    unsigned tries = BUSY_TRIES;
    while (fleet_send_answer(socket, answer, &ignored) == KILN_BUSY && tries-- > 0)
        usleep(BUSY_US);
}

/* Reports no failure. If the answer cannot be sent, a time limit in kilnd ends the request. */
void fleet_serve_answer(int socket, const struct fleet_request *request, struct fleet_answer answer,
                        struct bytes content)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    KILN_AUTO(fd) int fd = -1;
    answer.id = request->id;
    answer.fd = -1;
    bool has_file = answer.end == FLEET_END_DONE && !request->is_put && !request->is_remove;
    if (has_file && (fs_memfd("fleet", &fd, &ignored) || fs_write_all(fd, content, &ignored)))
        answer.end = FLEET_END_BROKEN;
    else if (has_file)
        answer.fd = fd;
    send_answer(socket, &answer);
}

static enum fleet_end end_of_errno(int errnum)
{
    switch (errnum) {
    case ENOENT: return FLEET_END_ABSENT;
    case EACCES:
    case EPERM: return FLEET_END_FORBIDDEN;
    case ESTALE:
    case ENOTCONN: return FLEET_END_UNREACHABLE;
    default: return FLEET_END_BROKEN;
    }
}

static enum fleet_end read_range(int fd, const struct fleet_request *request,
                                 struct buffer *content)
{
    struct stat seen;
    if (fstat(fd, &seen) != 0)
        return end_of_errno(errno);
    uint64_t size = request->size ? request->size : (uint64_t)seen.st_size;
    uint64_t size_max = request->size ? FLEET_RANGE_SIZE_MAX : request->size_max;
    if (!S_ISREG(seen.st_mode) || size > size_max)
        return FLEET_END_MALFORMED;
    buffer_init(content, (size_t)size);
    content->data = malloc(size ? (size_t)size : 1);
    if (!content->data)
        return FLEET_END_BROKEN;
    ssize_t got = fs_read_at(fd, content->data, (size_t)size, (off_t)request->offset);
    if (got < 0)
        return end_of_errno(errno);
    content->size = (size_t)got;
    return content->size == size ? FLEET_END_DONE : FLEET_END_MALFORMED;
}

static void answer_from_directory(int socket, int directory, const struct fleet_request *request)
{
    BUFFER_AUTO struct buffer content = { 0 };
    KILN_AUTO(fd)
    int fd = openat(directory, request->name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    enum fleet_end end = fd < 0 ? end_of_errno(errno) : read_range(fd, request, &content);
    fleet_serve_answer(socket, request, (struct fleet_answer){ .end = end }, buffer_view(&content));
}

static enum fleet_end end_of_add(enum kiln_code rc, bool is_added)
{
    switch (rc) {
    case KILN_OK: return is_added ? FLEET_END_DONE : FLEET_END_EXISTS;
    case KILN_DENIED: return FLEET_END_FORBIDDEN;
    default: return FLEET_END_BROKEN;
    }
}

static void add_to_directory(int socket, int directory, const struct fleet_request *request)
{
    struct kiln_err why = KILN_ERR_INIT;
    bool is_added = false;
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, FLEET_PUT_SIZE_MAX);
    enum kiln_code rc = fs_read_fd(request->fd, FLEET_PUT_SIZE_MAX, &content, &why);
    close(request->fd);
    if (!rc)
        rc = fleet_tree_add(directory, request->name, buffer_view(&content), &is_added, &why);
    fleet_serve_answer(socket, request, (struct fleet_answer){ .end = end_of_add(rc, is_added) },
                       (struct bytes){ 0 });
}

/* Refuses to replace, delete or list files. kilnctl needs no other process for a tree in a
 * directory, and kilnd can do without lists. */
static void refuse_request(int socket, const struct fleet_request *request)
{
    if (request->is_put)
        close(request->fd);
    fleet_serve_answer(socket, request, (struct fleet_answer){ .end = FLEET_END_REFUSED },
                       (struct bytes){ 0 });
}

static enum kiln_code serve_directory(int socket, int directory, struct kiln_err *err)
{
    struct pollfd readable = { .fd = socket, .events = POLLIN };
    for (;;) {
        struct fleet_request request;
        enum kiln_code rc = fleet_receive_request(socket, &request, err);
        if (rc == KILN_UNAVAILABLE)
            return KILN_OK;
        if (rc == KILN_BUSY)
            poll(&readable, 1, -1);
        else if (rc)
            return rc;
        else if (request.is_list || request.is_replace || request.is_remove)
            refuse_request(socket, &request);
        else if (request.is_put)
            add_to_directory(socket, directory, &request);
        else
            answer_from_directory(socket, directory, &request);
    }
}

enum kiln_code fleet_serve(int socket, const struct fleet_source *source, struct kiln_err *err)
{
    return source->directory >= 0 ? serve_directory(socket, source->directory, err)
                                  : fleet_serve_http(socket, source, err);
}
