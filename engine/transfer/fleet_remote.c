/* SPDX-License-Identifier: MIT */
#include "engine/transfer/fleet_remote.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "common/base/units.h"
#include "engine/transfer/fleet_wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* Maximum time to wait for an answer of kiln-transfer, in milliseconds. It is longer than
 * FLEET_ACCESS_MAX_MS, after which kiln-transfer ends a request to the server. */
#define HANG_MS ((int)FLEET_ACCESS_MAX_MS + 5000)
#define NAMES_SIZE_MAX (4u << 20)
/* Maximum number of pages of a list. A hostile store could send pages without end. */
#define PAGES_MAX 8192u

static struct fleet_remote *remote_of(struct fleet_store *store)
{
    return (struct fleet_remote *)(void *)store;
}

static enum kiln_code fail_end(const char *what, const char *name, enum fleet_end end,
                               struct kiln_err *err)
{
    static const enum kiln_code codes[FLEET_ENDS] = {
        [FLEET_END_EXISTS] = KILN_BUSY,         [FLEET_END_ABSENT] = KILN_NOT_FOUND,
        [FLEET_END_FORBIDDEN] = KILN_DENIED,    [FLEET_END_REFUSED] = KILN_INVALID,
        [FLEET_END_TOO_LARGE] = KILN_FULL,      [FLEET_END_BUSY] = KILN_UNAVAILABLE,
        [FLEET_END_BROKEN] = KILN_IO,           [FLEET_END_UNREACHABLE] = KILN_IO,
        [FLEET_END_TIMED_OUT] = KILN_TIMED_OUT, [FLEET_END_MALFORMED] = KILN_CORRUPT,
        [FLEET_END_STOPPED] = KILN_IO,
    };
    return kiln_fail(err, codes[end], "cannot %s '%s' of the fleet's tree: %s", what, name,
                     fleet_end_text(end));
}

/* Returns whether |end| is a failure of the store, which says nothing about the file. */
static bool is_failure(enum fleet_end end)
{
    return end == FLEET_END_BUSY || end == FLEET_END_BROKEN || end == FLEET_END_UNREACHABLE ||
           end == FLEET_END_TIMED_OUT || end == FLEET_END_STOPPED;
}

static enum kiln_code receive_answer(const struct fleet_remote *remote,
                                     struct fleet_answer *ret_answer, struct kiln_err *err)
{
    struct pollfd readable = { .fd = remote->socket, .events = POLLIN };
    int ready;
    do
        ready = poll(&readable, 1, HANG_MS);
    while (ready < 0 && errno == EINTR);
    if (ready == 0)
        return kiln_fail(err, KILN_TIMED_OUT, "kiln-transfer did not answer for %d seconds",
                         HANG_MS / 1000);
    enum kiln_code rc = fleet_receive_answer(remote->socket, ret_answer, err);
    return rc == KILN_UNAVAILABLE || rc == KILN_BUSY
               ? kiln_fail(err, KILN_IO, "kiln-transfer ended without an answer")
               : rc;
}

/* Sends one request, and waits for its answer, whose descriptor the caller owns. */
static enum kiln_code ask(struct fleet_remote *remote, struct fleet_request *request,
                          struct fleet_answer *ret_answer, struct kiln_err *err)
{
    request->id = remote->next_id++;
    enum kiln_code rc = fleet_send_request(remote->socket, request, err);
    if (!rc)
        rc = receive_answer(remote, ret_answer, err);
    if (rc || ret_answer->id == request->id)
        return rc;
    fd_close(&ret_answer->fd);
    return kiln_fail(err, KILN_CORRUPT, "kiln-transfer answered what was not asked");
}

/* ---- reading ---- */

static enum kiln_code send_reads(const struct fleet_remote *remote, const struct fleet_file *files,
                                 size_t count, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; !rc && i < count; i++) {
        struct fleet_request request = { .id = remote->next_id + i,
                                         .offset = files[i].offset,
                                         .size = files[i].size,
                                         .size_max = files[i].content.limit };
        snprintf(request.name, sizeof(request.name), "%s", files[i].name);
        rc = fleet_send_request(remote->socket, &request, err);
    }
    return rc;
}

static enum kiln_code read_content(struct fleet_file *file, int fd)
{
    if (fd < 0)
        return kiln_fail(&file->err, KILN_CORRUPT, "kiln-transfer sent no file for '%s'",
                         file->name);
    enum kiln_code rc = fs_read_fd(fd, file->content.limit, &file->content, &file->err);
    return rc ? kiln_while(&file->err, "reading '%s' of the fleet's tree", file->name) : KILN_OK;
}

/* Takes the answer, and closes its descriptor. */
static enum kiln_code take_read(struct fleet_file *file, const struct fleet_answer *answer,
                                struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = answer->fd;
    file->err = KILN_ERR_INIT;
    snprintf(file->tag, sizeof(file->tag), "%s", answer->tag);
    if (is_failure(answer->end))
        return fail_end("read", file->name, answer->end, err);
    file->rc = answer->end == FLEET_END_DONE
                   ? read_content(file, fd)
                   : fail_end("read", file->name, answer->end, &file->err);
    return KILN_OK;
}

/* Receives |count| answers, even after a failure of the store: otherwise the next request would
 * receive the answers that are left. */
static enum kiln_code take_reads(struct fleet_remote *remote, struct fleet_file *files,
                                 size_t count, struct kiln_err *err)
{
    uint64_t first = remote->next_id;
    enum kiln_code failed = KILN_OK;
    remote->next_id += count;
    for (size_t i = 0; i < count; i++) {
        struct fleet_answer answer;
        enum kiln_code rc = receive_answer(remote, &answer, err);
        if (rc)
            return rc;
        if (answer.id - first >= count) {
            fd_close(&answer.fd);
            return kiln_fail(err, KILN_CORRUPT, "kiln-transfer answered what was not asked");
        }
        rc = take_read(&files[answer.id - first], &answer, err);
        failed = rc ? rc : failed;
    }
    return failed;
}

static enum kiln_code read_files(struct fleet_store *store, struct fleet_file *files, size_t count,
                                 struct kiln_err *err)
{
    struct fleet_remote *remote = remote_of(store);
    for (size_t i = 0; i < count; i++)
        files[i].rc = KILN_IO; /* unless it is answered */
    enum kiln_code rc = send_reads(remote, files, count, err);
    return rc ? rc : take_reads(remote, files, count, err);
}

/* ---- writing ---- */

static enum kiln_code put(struct fleet_remote *remote, struct fleet_request *request,
                          struct bytes content, enum fleet_end *ret_end, struct kiln_err *err)
{
    struct fleet_answer answer;
    KILN_AUTO(fd) int fd = -1;
    enum kiln_code rc = fs_memfd("fleet-file", &fd, err);
    if (!rc)
        rc = fs_write_all(fd, content, err);
    request->is_put = true;
    request->fd = fd;
    if (!rc)
        rc = ask(remote, request, &answer, err);
    if (rc)
        return rc;
    fd_close(&answer.fd);
    *ret_end = answer.end;
    return KILN_OK;
}

static enum kiln_code add_file(struct fleet_store *store, const char *name, struct bytes content,
                               bool *ret_added, struct kiln_err *err)
{
    struct fleet_request request = { 0 };
    enum fleet_end end;
    snprintf(request.name, sizeof(request.name), "%s", name);
    enum kiln_code rc = put(remote_of(store), &request, content, &end, err);
    if (ret_added)
        *ret_added = !rc && end == FLEET_END_DONE;
    if (rc || end == FLEET_END_DONE || end == FLEET_END_EXISTS)
        return rc;
    return fail_end("add", name, end, err);
}

static enum kiln_code remove_file(struct fleet_store *store, const char *name, struct kiln_err *err)
{
    struct fleet_request request = { .is_remove = true, .fd = -1 };
    struct fleet_answer answer;
    snprintf(request.name, sizeof(request.name), "%s", name);
    enum kiln_code rc = ask(remote_of(store), &request, &answer, err);
    if (rc)
        return rc;
    fd_close(&answer.fd);
    return answer.end == FLEET_END_DONE || answer.end == FLEET_END_ABSENT
               ? KILN_OK
               : fail_end("delete", name, answer.end, err);
}

static enum kiln_code replace_file(struct fleet_store *store, const struct fleet_file *file,
                                   struct bytes content, struct kiln_err *err)
{
    struct fleet_request request = { .is_replace = file->rc != KILN_NOT_FOUND };
    enum fleet_end end;
    snprintf(request.name, sizeof(request.name), "%s", file->name);
    snprintf(request.tag, sizeof(request.tag), "%s", file->tag);
    enum kiln_code rc = put(remote_of(store), &request, content, &end, err);
    if (rc || end == FLEET_END_DONE)
        return rc;
    if (end == FLEET_END_EXISTS)
        return kiln_fail(err, KILN_BUSY,
                         "another host has changed '%s' meanwhile: compact only on one host",
                         file->name);
    return fail_end("replace", file->name, end, err);
}

/* Asks the store to replace a file that does not exist, on the condition that the file has a
 * certain tag. A store that honours conditions refuses the request. */
enum kiln_code fleet_remote_probe(struct fleet_remote *remote, bool *ret_has_conditions,
                                  struct kiln_err *err)
{
    struct fleet_request request = { .is_replace = true, .tag = "0123456789abcdef" };
    enum fleet_end end;
    uint64_t random;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return kiln_fail(err, KILN_IO, "the system provides no random bytes");
    fleet_name_probe(random, request.name);
    enum kiln_code rc = put(remote, &request, bytes_of_text("probe\n"), &end, err);
    if (rc)
        return rc;
    *ret_has_conditions = end == FLEET_END_EXISTS || end == FLEET_END_ABSENT;
    return *ret_has_conditions || end == FLEET_END_DONE ? KILN_OK
                                                        : fail_end("add", request.name, end, err);
}

/* ---- lists ---- */

struct visitor {
    fleet_each *each;
    void *context;
};

/* Reads a line of a list (fleet_wire.h), which ends with a zero byte. */
static bool read_line(char *line, struct fleet_listed *ret_listed)
{
    char *size = strchr(line, ' ');
    *ret_listed = (struct fleet_listed){ .name = line, .is_directory = !size };
    if (!size)
        return true;
    *size++ = '\0';
    char *time = strchr(size, ' ');
    if (!time)
        return false;
    *time++ = '\0';
    return units_parse_number(size, UINT64_MAX, &ret_listed->bytes) &&
           units_parse_number(time, UINT64_MAX, &ret_listed->modified);
}

static enum kiln_code pass_page(const struct visitor *visitor, struct bytes page,
                                struct kiln_err *err)
{
    char line[FLEET_NAME_MAX + 48];
    enum kiln_code rc = KILN_OK;
    while (!rc && page.size > 0) {
        struct fleet_listed listed;
        const uint8_t *newline = memchr(page.data, '\n', page.size);
        size_t size = newline ? (size_t)(newline - page.data) : page.size;
        if (!newline || size >= sizeof(line))
            return kiln_fail(err, KILN_CORRUPT, "kiln-transfer sent a damaged list");
        memcpy(line, page.data, size);
        line[size] = '\0';
        if (!read_line(line, &listed))
            return kiln_fail(err, KILN_CORRUPT, "kiln-transfer sent a damaged list");
        rc = visitor->each(visitor->context, &listed, err);
        page = bytes_of(newline + 1, page.size - size - 1);
    }
    return rc;
}

/* Reports the files on one page. |request|->token names the page, and is replaced by the token of
 * the next page. */
static enum kiln_code list_page(struct fleet_remote *remote, struct fleet_request *request,
                                const struct visitor *visitor, struct kiln_err *err)
{
    struct fleet_answer answer;
    BUFFER_AUTO struct buffer page;
    buffer_init(&page, NAMES_SIZE_MAX);
    enum kiln_code rc = ask(remote, request, &answer, err);
    if (rc)
        return rc;
    KILN_AUTO(fd) int fd = answer.fd;
    if (answer.end != FLEET_END_DONE)
        return fail_end("list", request->name, answer.end, err);
    rc = fs_read_fd(fd, NAMES_SIZE_MAX, &page, err);
    memcpy(request->token, answer.token, sizeof(request->token));
    return rc ? rc : pass_page(visitor, buffer_view(&page), err);
}

static enum kiln_code list_files(struct fleet_store *store, const char *directory, fleet_each *each,
                                 void *context, struct kiln_err *err)
{
    struct fleet_request request = { .is_list = true, .fd = -1 };
    const struct visitor visitor = { each, context };
    snprintf(request.name, sizeof(request.name), "%s", directory);
    for (unsigned page = 0; page < PAGES_MAX; page++) {
        enum kiln_code rc = list_page(remote_of(store), &request, &visitor, err);
        if (rc || !request.token[0])
            return rc;
    }
    return kiln_fail(err, KILN_FULL, "the list of '%s' has more than %u pages", directory,
                     PAGES_MAX);
}

static const struct fleet_store_ops remote_ops = { read_files, add_file, replace_file, list_files,
                                                   remove_file };

enum kiln_code fleet_remote_open(int socket, const char *url, struct fleet_remote *ret_remote,
                                 struct kiln_err *err)
{
    struct fleet_setup setup = { .writes = true };
    int size = snprintf(setup.url, sizeof(setup.url), "%s", url);
    *ret_remote = (struct fleet_remote){ .store = { &remote_ops }, .socket = socket };
    if (size < 0 || (size_t)size >= sizeof(setup.url))
        return kiln_fail(err, KILN_INVALID, "the URL of the fleet's tree is too long");
    return fleet_send_setup(socket, &setup, err);
}

void fleet_remote_close(struct fleet_remote *remote) { fd_close(&remote->socket); }
