/* SPDX-License-Identifier: MIT */
#include "engine/transfer/fleet_wire.h"

#include "common/base/cleanup.h"
#include "engine/transfer/packet.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum kiln_code fleet_send_setup(int socket, const struct fleet_setup *setup, struct kiln_err *err)
{
    KILN_AUTO(json) struct json *text = json_object();
    json_set_text(text, "url", setup->url);
    json_set_bool(text, "writes", setup->writes);
    const struct packet packet = { .json = text };
    return packet_send(socket, &packet, err);
}

enum kiln_code fleet_receive_setup(int socket, struct fleet_setup *ret_setup, struct kiln_err *err)
{
    KILN_AUTO(json) struct json *text = NULL;
    enum kiln_code rc = packet_receive(socket, 0, &text, /* fds= */ NULL, err);
    const char *url = rc ? NULL : json_get_text(text, "url", NULL);
    if (!url || strlen(url) >= FLEET_URL_MAX)
        return kiln_fail(err, KILN_INVALID, "the packet does not name the fleet's tree");
    strcpy(ret_setup->url, url);
    ret_setup->writes = json_get_bool(text, "writes", false);
    return KILN_OK;
}

bool fleet_name_is_fine(const char *name)
{
    const char *part = name;
    for (;;) {
        size_t size = strcspn(part, "/");
        if (size == 0 || part[0] == '.' ||
            strspn(part, "abcdefghijklmnopqrstuvwxyz0123456789._-") < size)
            return false;
        if (part[size] == '\0')
            return part > name && strlen(name) < FLEET_FILE_NAME_MAX;
        part += size + 1;
    }
}

/* Copies |text|, which may come from a hostile store. Returns false if it has a character that is
 * not printable ASCII, or if it does not fit. */
static bool copy_printable(const char *text, char *to, size_t size)
{
    for (const char *at = text; *at; at++)
        if (*at < ' ' || *at > '~')
            return false;
    return snprintf(to, size, "%s", text) < (int)size;
}

static void set_unless_empty(struct json *json, const char *name, const char *text)
{
    if (*text)
        json_set_text(json, name, text);
}

enum kiln_code fleet_send_request(int socket, const struct fleet_request *request,
                                  struct kiln_err *err)
{
    KILN_AUTO(json) struct json *text = json_object();
    json_set_u64(text, "id", request->id);
    json_set_text(text, "name", request->name);
    json_set_u64(text, "offset", request->offset);
    json_set_u64(text, "size", request->size);
    json_set_u64(text, "size_max", request->size_max);
    json_set_bool(text, "put", request->is_put);
    if (request->is_replace)
        json_set_bool(text, "replace", true);
    if (request->is_list)
        json_set_bool(text, "list", true);
    if (request->is_remove)
        json_set_bool(text, "remove", true);
    set_unless_empty(text, "tag", request->tag);
    set_unless_empty(text, "token", request->token);
    const struct packet packet = {
        .json = text, .fds = &request->fd, .fd_count = request->is_put, .flags = MSG_DONTWAIT
    };
    return packet_send(socket, &packet, err);
}

enum kiln_code fleet_receive_request(int socket, struct fleet_request *ret_request,
                                     struct kiln_err *err)
{
    KILN_AUTO(json) struct json *text = NULL;
    int fds[2] = { -1, -1 };
    enum kiln_code rc = packet_receive(socket, MSG_DONTWAIT, &text, fds, err);
    KILN_AUTO(fd) int first = fds[0];
    KILN_AUTO(fd) int second = fds[1];
    if (rc)
        return rc;
    const char *name = json_get_text(text, "name", "");
    bool is_put = json_get_bool(text, "put", false);
    if (!fleet_name_is_fine(name) || is_put != (first >= 0) || second >= 0)
        return kiln_fail(err, KILN_INVALID, "'%.80s' is not a file of a fleet's tree", name);
    *ret_request = (struct fleet_request){ .id = json_get_u64(text, "id", 0),
                                           .is_replace = json_get_bool(text, "replace", false),
                                           .is_list = json_get_bool(text, "list", false),
                                           .is_remove = json_get_bool(text, "remove", false),
                                           .offset = json_get_u64(text, "offset", 0),
                                           .size = json_get_u64(text, "size", 0),
                                           .size_max = json_get_u64(text, "size_max", 0),
                                           .is_put = is_put,
                                           .fd = first };
    if (!copy_printable(json_get_text(text, "tag", ""), ret_request->tag, FLEET_TAG_MAX) ||
        !copy_printable(json_get_text(text, "token", ""), ret_request->token, FLEET_TOKEN_MAX) ||
        is_put + ret_request->is_list + ret_request->is_remove > 1)
        return kiln_fail(err, KILN_INVALID, "the request for '%.80s' is not valid", name);
    first = -1;
    snprintf(ret_request->name, sizeof(ret_request->name), "%s", name);
    return KILN_OK;
}

enum kiln_code fleet_send_answer(int socket, const struct fleet_answer *answer,
                                 struct kiln_err *err)
{
    KILN_AUTO(json) struct json *text = json_object();
    json_set_u64(text, "id", answer->id);
    json_set_u64(text, "end", answer->end);
    set_unless_empty(text, "tag", answer->tag);
    set_unless_empty(text, "token", answer->token);
    if (answer->wait_s)
        json_set_u64(text, "wait", answer->wait_s);
    const struct packet packet = { .json = text, .fds = &answer->fd, .fd_count = answer->fd >= 0 };
    return packet_send(socket, &packet, err);
}

/* Returns whether |fd| is a memory file, the only kind for which F_GET_SEALS succeeds. kilnd reads
 * the file on threads that must not wait. Reading another file, for example one on a network file
 * system, could block them. */
static bool is_memory_file(int fd) { return fcntl(fd, F_GET_SEALS) >= 0; }

enum kiln_code fleet_receive_answer(int socket, struct fleet_answer *ret_answer,
                                    struct kiln_err *err)
{
    KILN_AUTO(json) struct json *text = NULL;
    int fds[2] = { -1, -1 };
    enum kiln_code rc = packet_receive(socket, MSG_DONTWAIT, &text, fds, err);
    KILN_AUTO(fd) int first = fds[0];
    KILN_AUTO(fd) int second = fds[1];
    if (rc)
        return rc;
    uint64_t end = json_get_u64(text, "end", FLEET_ENDS);
    struct fleet_answer answer = { .id = json_get_u64(text, "id", 0),
                                   .end = (enum fleet_end)end,
                                   .wait_s = json_get_u64(text, "wait", 0) };
    bool has_texts =
        copy_printable(json_get_text(text, "tag", ""), answer.tag, FLEET_TAG_MAX) &&
        copy_printable(json_get_text(text, "token", ""), answer.token, FLEET_TOKEN_MAX);
    bool has_fine_file = first < 0 || (end == FLEET_END_DONE && is_memory_file(first));
    if (end >= FLEET_ENDS || !has_fine_file || second >= 0 || !has_texts)
        return kiln_fail(err, KILN_INVALID,
                         "the process that reads the fleet's tree sent an "
                         "invalid answer");
    *ret_answer = answer;
    ret_answer->fd = first;
    first = -1;
    return KILN_OK;
}
